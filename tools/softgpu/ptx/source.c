/* SPDX-License-Identifier: MIT */
/*
 * The compiler's notes on the lines of the source:
 *
 *	.file N "NAME" ...
 *	.loc N LINE COLUMN
 *	.loc N LINE COLUMN, function_name LABEL, inlined_at N LINE COLUMN
 *
 * Only messages about faults use them, so a note of another form is skipped.
 */
#include "parser.h"

#include <string.h>

#define NAME_MAX_LENGTH 255

void skip_line(struct parser *parser)
{
	const unsigned int line = parser->lexer.token.line;

	while (parser->lexer.token.line == line &&
	       parser->lexer.token.kind != TOKEN_END &&
	       parser->lexer.token.kind != TOKEN_BAD)
		lexer_next(&parser->lexer);
}

/* The next token of the line, a number. */
static bool next_number(struct parser *parser, unsigned int line, uint32_t *ret)
{
	const struct token *token = &parser->lexer.token;

	if (token->line != line || token->kind != TOKEN_INT || token->value > UINT32_MAX)
		return false;
	*ret = (uint32_t)token->value;
	lexer_next(&parser->lexer);
	return true;
}

static bool source_add(struct parser *parser, uint32_t number, const struct token *token)
{
	const char *slash = memrchr(token->text, '/', token->length);
	const char *name = slash ? slash + 1 : token->text;
	const size_t length = MIN((size_t)(token->text + token->length - name),
				  (size_t)NAME_MAX_LENGTH);
	struct source *source = calloc(1, sizeof(*source) + length + 1);

	if (!source)
		return parser_no_memory(parser);
	source->number = number;
	memcpy(source->name, name, length);
	source->next = parser->module->sources;
	parser->module->sources = source;
	return true;
}

bool parse_file(struct parser *parser)
{
	const struct token *token = &parser->lexer.token;
	const unsigned int line = token->line;
	uint32_t number;

	lexer_next(&parser->lexer);
	if (next_number(parser, line, &number) && token->line == line &&
	    token->kind == TOKEN_STRING && !source_add(parser, number, token))
		return false;
	if (token->line == line)
		skip_line(parser);
	return true;
}

static bool place_add(struct parser *parser, const struct place *place)
{
	struct ptx_function *function = parser->function;
	const uint32_t n = function->n_places;
	struct place *grown;

	if ((n & (n - 1)) == 0) {
		grown = realloc(function->places, MAX(16U, n * 2) * sizeof(*grown));
		if (!grown)
			return parser_no_memory(parser);
		function->places = grown;
	}
	function->places[n] = *place;
	parser->place = ++function->n_places;
	return true;
}

/* The rest of the line: whether and where the function was inlined. */
static void parse_inlined(struct parser *parser, unsigned int line, struct place *place)
{
	const struct token *token = &parser->lexer.token;
	uint32_t file, number;

	while (token->line == line && token->kind != TOKEN_END &&
	       token->kind != TOKEN_BAD) {
		if (!accept_name(parser, "inlined_at"))
			lexer_next(&parser->lexer);
		else if (next_number(parser, line, &file) &&
			 next_number(parser, line, &number))
			*place = (struct place){ place->file, place->line, file, number };
	}
}

bool parse_loc(struct parser *parser)
{
	const unsigned int line = parser->lexer.token.line;
	struct place place = { 0 };
	bool known;

	lexer_next(&parser->lexer);
	known = next_number(parser, line, &place.file) &&
		next_number(parser, line, &place.line);
	parse_inlined(parser, line, &place);
	return !known || !place.line || place_add(parser, &place);
}

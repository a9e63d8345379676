/* SPDX-License-Identifier: MIT */
/*
 * Common to the parser's files: error messages, tokens, names in scopes, and the function
 * under construction.
 */
#include "parser.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void parser_vsay(struct parser *parser, unsigned int line, const char *format,
			va_list args)
{
	char said[512];

	if (parser->error)
		return;
	vsnprintf(said, sizeof(said), format, args);
	text_printf(parser->log, "line %u: ", line);
	text_add_printable(parser->log, said);
	text_printf(parser->log, "\n");
	parser->error = -EINVAL;
}

bool parser_fail(struct parser *parser, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	parser_vsay(parser, parser->lexer.token.line, format, args);
	va_end(args);
	return false;
}

bool parser_fail_at(struct parser *parser, unsigned int line, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	parser_vsay(parser, line, format, args);
	va_end(args);
	return false;
}

bool parser_no_memory(struct parser *parser)
{
	parser->error = -ENOMEM;
	return false;
}

static bool parser_unexpected(struct parser *parser, const char *expected)
{
	const struct token *token = &parser->lexer.token;
	const char *dot = token->kind == TOKEN_DOT ? "." : "";

	if (token->kind == TOKEN_END)
		return parser_fail(parser, "%s expected, but the text ends", expected);
	return parser_fail(parser, "%s expected, not '%s%.*s'", expected, dot,
			   (int)MIN(token->length, (size_t)64), token->text);
}

bool accept_sign(struct parser *parser, char sign)
{
	if (!token_is_sign(&parser->lexer.token, sign))
		return false;
	lexer_next(&parser->lexer);
	return true;
}

bool accept_dot(struct parser *parser, const char *word)
{
	if (!token_is(&parser->lexer.token, TOKEN_DOT, word))
		return false;
	lexer_next(&parser->lexer);
	return true;
}

bool accept_name(struct parser *parser, const char *word)
{
	if (!token_is(&parser->lexer.token, TOKEN_NAME, word))
		return false;
	lexer_next(&parser->lexer);
	return true;
}

bool expect_sign(struct parser *parser, char sign)
{
	const char expected[] = { '\'', sign, '\'', '\0' };

	return accept_sign(parser, sign) || parser_unexpected(parser, expected);
}

bool expect_int(struct parser *parser, uint64_t *ret)
{
	if (parser->lexer.token.kind != TOKEN_INT)
		return parser_unexpected(parser, "a number");
	*ret = parser->lexer.token.value;
	lexer_next(&parser->lexer);
	return true;
}

bool expect_name(struct parser *parser, char **ret)
{
	const struct token *token = &parser->lexer.token;

	if (token->kind != TOKEN_NAME)
		return parser_unexpected(parser, "a name");
	*ret = strndup(token->text, token->length);
	lexer_next(&parser->lexer);
	return *ret || parser_no_memory(parser);
}

bool scope_open(struct parser *parser)
{
	struct scope *scope = calloc(1, sizeof(*scope));

	if (!scope)
		return parser_no_memory(parser);
	scope->outer = parser->scope;
	parser->scope = scope;
	return true;
}

void scope_close(struct parser *parser)
{
	struct scope *scope = parser->scope;
	struct symbol *symbol, *next;

	parser->scope = scope->outer;
	HASH_ITER (hh, scope->symbols, symbol, next) {
		HASH_DEL(scope->symbols, symbol);
		free(symbol->name);
		free(symbol);
	}
	free(scope);
}

static struct symbol *scope_find(const struct scope *scope, const char *name,
				 size_t length)
{
	struct symbol *symbol;

	HASH_FIND(hh, scope->symbols, name, length, symbol);
	return symbol;
}

struct symbol *symbol_add(struct parser *parser, char *name, enum symbol_kind kind)
{
	struct symbol *symbol;

	if (scope_find(parser->scope, name, strlen(name))) {
		parser_fail(parser, "'%s' is declared twice", name);
		free(name);
		return NULL;
	}
	symbol = calloc(1, sizeof(*symbol));
	if (!symbol) {
		parser_no_memory(parser);
		free(name);
		return NULL;
	}
	symbol->name = name;
	symbol->kind = kind;
	HASH_ADD_KEYPTR(hh, parser->scope->symbols, symbol->name, strlen(symbol->name),
			symbol);
	return symbol;
}

/* NAMEn of a declared NAME<count>. */
static struct symbol *scope_find_numbered(const struct scope *scope, const char *name,
					  size_t length)
{
	size_t stem = length;
	uint64_t number = 0;
	struct symbol *symbol;

	while (stem && name[stem - 1] >= '0' && name[stem - 1] <= '9')
		stem--;
	if (stem == length || length - stem > 9 ||
	    (name[stem] == '0' && length - stem > 1))
		return NULL;
	for (size_t i = stem; i < length; i++)
		number = number * 10 + (uint64_t)(name[i] - '0');
	symbol = scope_find(scope, name, stem);
	return symbol && symbol->kind == SYMBOL_REGISTERS && number < symbol->count
		       ? symbol
		       : NULL;
}

struct symbol *symbol_find(struct parser *parser, const char *name, size_t length)
{
	for (const struct scope *scope = parser->scope; scope; scope = scope->outer) {
		struct symbol *symbol = scope_find(scope, name, length);

		if (!symbol)
			symbol = scope_find_numbered(scope, name, length);
		if (symbol)
			return symbol;
	}
	return NULL;
}

struct op *op_new(struct parser *parser)
{
	struct ptx_function *function = parser->function;
	struct op *grown;

	if (function->n_ops == parser->ops_capacity) {
		const size_t capacity = MAX((size_t)64, parser->ops_capacity * 2);

		grown = realloc(function->ops, capacity * sizeof(*grown));
		if (!grown) {
			parser_no_memory(parser);
			return NULL;
		}
		function->ops = grown;
		parser->ops_capacity = capacity;
	}
	return &function->ops[function->n_ops++];
}

bool op_emit(struct parser *parser, const struct op *op)
{
	struct op *kept = op_new(parser);

	if (!kept)
		return false;
	*kept = *op;
	kept->place = parser->place;
	return true;
}

int32_t register_new(struct parser *parser)
{
	return (int32_t)parser->function->n_registers++;
}

#define LOOK_BACK 64 /* constants that are looked at for the same one */

struct operand constant_new(struct parser *parser, uint64_t value, enum relocation how)
{
	struct ptx_function *function = parser->function;
	const size_t n = function->n_constants;
	struct constant *grown;

	for (size_t i = n > LOOK_BACK ? n - LOOK_BACK : 0; i < n; i++)
		if (function->constants[i].value == value &&
		    function->constants[i].relocation == how)
			return (struct operand){ (int32_t)i, true };
	if ((n & (n - 1)) == 0) {
		grown = realloc(function->constants,
				MAX((size_t)1, n * 2) * sizeof(*grown));
		if (!grown) {
			parser_no_memory(parser);
			return (struct operand){ 0, true };
		}
		function->constants = grown;
	}
	function->constants[n] = (struct constant){ value, how };
	function->n_constants++;
	return (struct operand){ (int32_t)n, true };
}

/* SPDX-License-Identifier: MIT */
/*
 * From an instruction's words and operands to an op: the rows of the families' tables are
 * all there is. An instruction without a matching row is refused, so that nothing runs
 * without being understood whole.
 */
#include "parser.h"

#include <string.h>

#define MAX_WORDS 16

struct words {
	struct {
		const char *text;
		size_t length;
	} word[MAX_WORDS];
	size_t n;
	unsigned int line;
};

const struct family *const families[] = {
	&family_approx,	 &family_arithmetic, &family_atomic,  &family_bits,
	&family_carry,	 &family_collective, &family_cluster, &family_compare,
	&family_control, &family_convert,    &family_float,   &family_half,
	&family_memory,	 &family_move,
};
const size_t n_families = ARRAY_SIZE(families);

static bool words_read(struct parser *parser, struct words *words)
{
	struct token *token = &parser->lexer.token;

	*words = (struct words){ .line = token->line };
	if (token->kind != TOKEN_NAME)
		return parser_fail(parser, "an instruction expected");
	do {
		if (words->n == MAX_WORDS)
			return parser_fail(parser, "an instruction of too many words");
		words->word[words->n].text = token->text;
		words->word[words->n++].length = token->length;
		lexer_next(&parser->lexer);
	} while (token->kind == TOKEN_DOT);
	return true;
}

/* Returns: the number of words in the row's name; 0 for another name. */
static size_t row_name(const struct instruction *row, const struct words *words)
{
	const char *name = row->name;
	size_t n = 0;

	for (;;) {
		const size_t length = strcspn(name, ".");

		if (n == words->n || words->word[n].length != length ||
		    memcmp(words->word[n].text, name, length))
			return 0;
		n++;
		if (!name[length])
			return n;
		name += length + 1;
	}
}

static bool row_has_type(const struct instruction *row, enum type type)
{
	return row->handlers ? row->handlers[type] != NULL : row->types >> type & 1;
}

static bool row_fits(const struct instruction *row, const struct words *words,
		     struct op *op)
{
	size_t n = row_name(row, words);
	enum type found[2] = { TYPE_NONE, TYPE_NONE };
	size_t n_types = 0;
	const size_t wanted =
		(size_t)(row->handlers || row->types) + (size_t)(row->from != 0);

	if (!n)
		return false;
	op->mods = (struct modifiers){ 0 };
	for (; n < words->n; n++) {
		const char *text = words->word[n].text;
		const size_t length = words->word[n].length;
		enum type type;

		if (modifier_take(&op->mods, row->groups, text, length))
			continue;
		type = type_find(text, length);
		if (type == TYPE_NONE || n_types == wanted)
			return false;
		found[n_types++] = type;
	}
	if (n_types != wanted || (op->mods.groups & row->required) != row->required)
		return false;
	if (row->mode && op->mods.mode != row->mode)
		return false;
	if (wanted && !row_has_type(row, found[0]))
		return false;
	if (row->from && !(row->from >> found[1] & 1))
		return false;
	op->type = found[0];
	op->from = found[1];
	op->run = row->handlers ? row->handlers[op->type] : row->handler;
	return true;
}

static const struct instruction *row_find(const struct words *words, struct op *op)
{
	for (size_t f = 0; f < n_families; f++)
		for (size_t i = 0; i < families[f]->n; i++)
			if (row_fits(&families[f]->rows[i], words, op))
				return &families[f]->rows[i];
	return NULL;
}

static bool words_fail(struct parser *parser, const struct words *words)
{
	const char *first = words->word[0].text;
	const char *end =
		words->word[words->n - 1].text + words->word[words->n - 1].length;
	const int length = (int)MIN((size_t)(end - first), (size_t)200);

	for (size_t f = 0; f < n_families; f++)
		for (size_t i = 0; i < families[f]->n; i++)
			if (!strncmp(families[f]->rows[i].name, first,
				     words->word[0].length) &&
			    strchr(".", families[f]->rows[i].name[words->word[0].length]))
				return parser_fail_at(parser, words->line,
						      "this form of an instruction is "
						      "not known: '%.*s'",
						      length, first);
	return parser_fail_at(parser, words->line, "unknown instruction '%.*s'", length,
			      first);
}

static enum type type_double(enum type type)
{
	switch ((int)type) {
	case TYPE_U16:
		return TYPE_U32;
	case TYPE_S16:
		return TYPE_S32;
	case TYPE_U32:
		return TYPE_U64;
	default:
		return TYPE_S64;
	}
}

/* p, or p|q where the instruction has a second result. */
static bool parse_predicates(struct parser *parser, struct op *op)
{
	if (!operand_to(parser, TYPE_PRED, false, op, &op->to))
		return false;
	if (!accept_sign(parser, '|'))
		return true;
	return operand_to(parser, TYPE_PRED, false, op, &op->to_pred);
}

/* d, or d|p. */
static bool parse_value_and_predicate(struct parser *parser, struct op *op)
{
	if (!operand_to(parser, TYPE_B32, false, op, &op->to))
		return false;
	if (!accept_sign(parser, '|'))
		return true;
	return operand_to(parser, TYPE_PRED, false, op, &op->to_pred);
}

static bool parse_element(struct parser *parser, struct op *op, bool is_source)
{
	struct operand *ret = &op->vector[op->n_vector++];

	return is_source ? operand_source(parser, op->type, true, ret)
			 : operand_to(parser, op->type, true, op, ret);
}

/* One, or as many in braces as the instruction says. */
static bool parse_vector(struct parser *parser, struct op *op, bool is_source)
{
	if (!op->mods.n_vector)
		return parse_element(parser, op, is_source);
	if (!expect_sign(parser, '{'))
		return false;
	for (unsigned int i = 0; i < op->mods.n_vector; i++) {
		if (i && !expect_sign(parser, ','))
			return false;
		if (!parse_element(parser, op, is_source))
			return false;
	}
	return expect_sign(parser, '}');
}

static bool parse_next_source(struct parser *parser, struct op *op, enum type type,
			      bool wider)
{
	if (op->n_sources == ARRAY_SIZE(op->source))
		return parser_fail(parser, "too many operands");
	return operand_source(parser, type, wider, &op->source[op->n_sources++]);
}

static bool parse_operand(struct parser *parser, struct op *op, char letter)
{
	switch (letter) {
	case 'd':
		return operand_to(parser, op->type, false, op, &op->to);
	case 'D':
		return operand_to(parser, op->type, true, op, &op->to);
	case 'x':
		return operand_to(parser, TYPE_B32, false, op, &op->to);
	case 'w':
		return operand_to(parser, type_double(op->type), false, op, &op->to);
	case 'p':
		return parse_predicates(parser, op);
	case 'P':
		return parse_value_and_predicate(parser, op);
	case 'v':
		return parse_vector(parser, op, false);
	case 'V':
		return parse_vector(parser, op, true);
	case 'a':
		return parse_next_source(parser, op, op->type, false);
	case 'A':
		return parse_next_source(parser, op, op->type, true);
	case 'f':
		return parse_next_source(parser, op, op->from, false);
	case 'F':
		return parse_next_source(parser, op, op->from, true);
	case 'u':
		return parse_next_source(parser, op, TYPE_B32, false);
	case 'W':
		return parse_next_source(parser, op, type_double(op->type), false);
	case 'n':
		return parse_next_source(parser, op, TYPE_NONE, true);
	case 'q':
		return operand_predicate(parser, &op->from_pred);
	default: /* 'm' */
		op->n_sources = 1;
		return operand_memory(parser, op);
	}
}

bool operands_parse(struct parser *parser, struct op *op, const char *pattern)
{
	bool first = true, optional = false;

	for (; *pattern; pattern++) {
		if (*pattern == '?') {
			optional = true;
			continue;
		}
		if (optional && token_is_sign(&parser->lexer.token, ';'))
			return true;
		if (!first && !expect_sign(parser, ','))
			return false;
		if (!parse_operand(parser, op, *pattern))
			return false;
		first = false;
	}
	return true;
}

bool parse_instruction(struct parser *parser, int32_t guard, bool guard_negated)
{
	const struct instruction *row;
	struct words words;
	struct op op = {
		.guard = guard,
		.guard_negated = guard_negated,
		.to = OPERAND_NONE,
		.to_pred = OPERAND_NONE,
		.from_pred = OPERAND_NONE,
	};

	if (!words_read(parser, &words))
		return false;
	row = row_find(&words, &op);
	if (!row)
		return words_fail(parser, &words);
	op.line = words.line;
	if (row->parse ? !row->parse(parser, &op)
		       : !operands_parse(parser, &op, row->operands))
		return false;
	return expect_sign(parser, ';') && op_emit(parser, &op);
}

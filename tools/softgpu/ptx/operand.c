/* SPDX-License-Identifier: MIT */
/*
 * Operands: registers, constants, names of memory, and memory itself.
 *
 * Any other operand gets a register of its own and an op in front that fills the
 * register: special registers, addresses that depend on the frame or the launch, negated
 * predicates.
 */
#include "parser.h"

#include <string.h>

static bool operand_temporary(struct parser *parser, struct op *op, struct operand *ret)
{
	op->guard = -1;
	op->line = parser->lexer.token.line;
	*ret = op->to = operand_register(register_new(parser));
	return op_emit(parser, op);
}

static bool literal_float(struct parser *parser, enum type type, bool negative,
			  uint64_t *ret)
{
	const struct token *token = &parser->lexer.token;
	const bool single = type == TYPE_F32 || (type == TYPE_B32 && token->single);
	const float narrow = (float)token->number;
	uint32_t bits = (uint32_t)token->value;

	if (!single && type != TYPE_F64 && type != TYPE_B64)
		return parser_fail(parser,
				   "a floating point number where a .%s is wanted",
				   types[type].name);
	if (!single && token->single)
		return parser_fail(parser, "a 32-bit number where a .%s is wanted",
				   types[type].name);
	if (!single) {
		*ret = token->value ^ (uint64_t)negative << 63;
		return true;
	}
	if (!token->single)
		memcpy(&bits, &narrow, sizeof(bits));
	*ret = bits ^ (uint32_t)negative << 31;
	return true;
}

static uint64_t cut(uint64_t value, enum type type)
{
	if (type == TYPE_PRED)
		return value != 0;
	if (type == TYPE_NONE || type_bits(type) >= 64)
		return value;
	return value & (((uint64_t)1 << type_bits(type)) - 1);
}

/* A number, with a sign before. */
static bool operand_literal(struct parser *parser, enum type type, struct operand *ret)
{
	const bool negative = accept_sign(parser, '-');
	const struct token *token = &parser->lexer.token;
	uint64_t value = token->value;

	if (token->kind == TOKEN_FLOAT) {
		if (!literal_float(parser, type, negative, &value))
			return false;
	} else if (token->kind != TOKEN_INT) {
		return parser_fail(parser, "an operand expected");
	} else if (type_is_float(type)) {
		return parser_fail(parser, "an integer where a .%s is wanted",
				   types[type].name);
	} else {
		value = cut(negative ? 0 - value : value, type);
	}
	lexer_next(&parser->lexer);
	*ret = constant_new(parser, value, RELOCATE_NOT);
	return !parser->error;
}

static bool width_check(struct parser *parser, const struct symbol *symbol,
			enum type type, bool wider)
{
	const unsigned int has = type_bits(symbol->type), wants = type_bits(type);

	if ((symbol->type == TYPE_PRED) != (type == TYPE_PRED) && type != TYPE_NONE)
		return parser_fail(parser, "'%s' is a .%s where a .%s is wanted",
				   symbol->name, types[symbol->type].name,
				   types[type].name);
	if (type == TYPE_NONE || has == wants || (wider && has > wants))
		return true;
	return parser_fail(parser, "'%s' has %u bits where %u are wanted", symbol->name,
			   has, wants);
}

static int32_t register_index(const struct symbol *symbol, const char *name,
			      size_t length)
{
	const size_t stem = strlen(symbol->name);
	int32_t index = 0;

	if (symbol->kind == SYMBOL_REGISTER)
		return symbol->index;
	for (size_t i = stem; i < length; i++)
		index = index * 10 + (name[i] - '0');
	return symbol->index + index;
}

static bool is_register(const struct symbol *symbol)
{
	return symbol->kind == SYMBOL_REGISTER || symbol->kind == SYMBOL_REGISTERS;
}

static bool operand_shared(struct parser *parser, const struct symbol *symbol,
			   struct operand *ret)
{
	parser->function->shares |= !symbol->of_kernel;
	*ret = constant_new(parser, symbol->offset,
			    symbol->of_kernel ? RELOCATE_SHARED : RELOCATE_NOT);
	return !parser->error;
}

static bool operand_function(struct parser *parser, const struct symbol *symbol,
			     struct operand *ret)
{
	struct ptx_function *function = symbol->function;

	if (!function->line)
		function->line = parser->lexer.token.line;
	*ret = constant_new(parser, CODE_BASE + (uint64_t)CODE_STEP * function->code,
			    RELOCATE_NOT);
	return !parser->error;
}

/* The address of a name, in the space of the name. */
static bool operand_address(struct parser *parser, const struct symbol *symbol,
			    struct operand *ret)
{
	switch (symbol->kind) {
	case SYMBOL_VARIABLE:
		if (symbol->count)
			return parser_fail(parser, "'%s' is defined nowhere",
					   symbol->name);
		*ret = constant_new(parser, symbol->offset, RELOCATE_IMAGE);
		return !parser->error;
	case SYMBOL_SHARED:
		return operand_shared(parser, symbol, ret);
	case SYMBOL_DYNAMIC:
		return operand_temporary(parser, &(struct op){ .run = op_dynamic_shared },
					 ret);
	case SYMBOL_LOCAL:
		return operand_temporary(
			parser,
			&(struct op){ .run = op_local_address,
				      .offset = (int64_t)symbol->offset },
			ret);
	case SYMBOL_PARAM:
		*ret = constant_new(parser, symbol->offset, RELOCATE_NOT);
		return !parser->error;
	case SYMBOL_FUNCTION:
		return operand_function(parser, symbol, ret);
	default:
		return parser_fail(parser, "'%s' is no operand", symbol->name);
	}
}

static bool operand_special(struct parser *parser, enum type type, bool wider,
			    struct operand *ret)
{
	const struct token *token = &parser->lexer.token;
	const char *name = token->text;
	size_t length = token->length;
	const struct special *special;
	uint32_t number;
	struct op op;

	lexer_next(&parser->lexer);
	if (token->kind == TOKEN_DOT && token->text == name + length + 1) {
		length += 1 + token->length;
		lexer_next(&parser->lexer);
	}
	special = special_find(name, length, &number);
	if (!special)
		return parser_fail(parser, "'%.*s' is not declared",
				   (int)MIN(length, (size_t)200), name);
	if (type != TYPE_NONE && type_bits(special_type(special)) < type_bits(type) &&
	    !wider && type_bits(type) != 64)
		return parser_fail(parser, "'%.*s' has fewer bits", (int)length, name);
	special_op(special, number, OPERAND_NONE, &op);
	return operand_temporary(parser, &op, ret);
}

/* A constant address may have a distance added. */
static bool operand_distance(struct parser *parser, struct operand *operand)
{
	const struct constant *constant;
	bool negative;
	uint64_t distance;

	if (!token_is_sign(&parser->lexer.token, '+'))
		return true;
	lexer_next(&parser->lexer);
	negative = accept_sign(parser, '-');
	if (!expect_int(parser, &distance))
		return false;
	if (!operand->is_constant)
		return parser_fail(parser, "a distance from what is no constant");
	constant = &parser->function->constants[operand->index];
	*operand = constant_new(parser,
				constant->value + (negative ? 0 - distance : distance),
				constant->relocation);
	return !parser->error;
}

bool operand_source(struct parser *parser, enum type type, bool wider,
		    struct operand *ret)
{
	const struct token *token = &parser->lexer.token;
	const struct symbol *symbol;

	if (token->kind != TOKEN_NAME)
		return operand_literal(parser, type, ret);
	if (accept_name(parser, "WARP_SZ")) {
		*ret = constant_new(parser, LANES, RELOCATE_NOT);
		return !parser->error;
	}
	symbol = symbol_find(parser, token->text, token->length);
	if (!symbol)
		return operand_special(parser, type, wider, ret);
	if (is_register(symbol)) {
		*ret = operand_register(
			register_index(symbol, token->text, token->length));
		if (!width_check(parser, symbol, type, wider))
			return false;
		lexer_next(&parser->lexer);
		return true;
	}
	if (symbol->kind == SYMBOL_PARAM && symbol->in_frame)
		return parser_fail(parser, "the address of '%s' can't be taken",
				   symbol->name);
	if (!operand_address(parser, symbol, ret))
		return false;
	lexer_next(&parser->lexer);
	return operand_distance(parser, ret);
}

bool operand_to(struct parser *parser, enum type type, bool wider, struct op *op,
		struct operand *ret)
{
	const struct token *token = &parser->lexer.token;
	const struct symbol *symbol;

	if (accept_name(parser, "_")) {
		op->register_bits = 64;
		*ret = operand_register(register_new(parser));
		return true;
	}
	if (token->kind != TOKEN_NAME)
		return parser_fail(parser, "a register expected");
	symbol = symbol_find(parser, token->text, token->length);
	if (!symbol || !is_register(symbol))
		return parser_fail(parser, "'%.*s' is no register",
				   (int)MIN(token->length, (size_t)200), token->text);
	if (!width_check(parser, symbol, type, wider))
		return false;
	op->register_bits = types[symbol->type].bits;
	*ret = operand_register(register_index(symbol, token->text, token->length));
	lexer_next(&parser->lexer);
	return true;
}

bool operand_predicate(struct parser *parser, struct operand *ret)
{
	const bool negated = accept_sign(parser, '!');
	struct op op = { .run = op_not };

	if (!operand_source(parser, TYPE_PRED, false, ret))
		return false;
	if (!negated)
		return true;
	op.source[0] = *ret;
	return operand_temporary(parser, &op, ret);
}

static enum space symbol_space(const struct symbol *symbol)
{
	switch (symbol->kind) {
	case SYMBOL_SHARED:
	case SYMBOL_DYNAMIC:
		return SPACE_SHARED;
	case SYMBOL_LOCAL:
		return SPACE_LOCAL;
	case SYMBOL_PARAM:
		return SPACE_PARAM;
	default:
		return SPACE_GLOBAL;
	}
}

static bool memory_symbol(struct parser *parser, const struct symbol *symbol,
			  struct op *op)
{
	const enum space space = symbol_space(symbol);
	const enum space said = op->mods.space;
	const bool fits = said == SPACE_GENERIC || said == space ||
			  (said == SPACE_CONST && space == SPACE_GLOBAL);

	if (!fits)
		return parser_fail(parser, "'%s' is in another space", symbol->name);
	if (!operand_address(parser, symbol, &op->source[0]))
		return false;
	if (said == SPACE_GENERIC)
		op->mods.space = space;
	op->in_frame = symbol->in_frame;
	return true;
}

static bool memory_base(struct parser *parser, struct op *op)
{
	const struct token *token = &parser->lexer.token;
	const struct symbol *symbol;

	if (token->kind != TOKEN_NAME)
		return operand_literal(parser, TYPE_B64, &op->source[0]);
	symbol = symbol_find(parser, token->text, token->length);
	if (!symbol)
		return parser_fail(parser, "'%.*s' is not declared",
				   (int)MIN(token->length, (size_t)200), token->text);
	if (!is_register(symbol)) {
		if (!memory_symbol(parser, symbol, op))
			return false;
	} else {
		if (type_bits(symbol->type) < 32)
			return parser_fail(parser, "'%s' can't hold an address",
					   symbol->name);
		op->source[0] = operand_register(
			register_index(symbol, token->text, token->length));
	}
	lexer_next(&parser->lexer);
	return true;
}

bool operand_memory(struct parser *parser, struct op *op)
{
	uint64_t distance = 0;
	bool negative;

	if (!expect_sign(parser, '[') || !memory_base(parser, op))
		return false;
	negative = token_is_sign(&parser->lexer.token, '-');
	if (negative || token_is_sign(&parser->lexer.token, '+')) {
		lexer_next(&parser->lexer);
		negative |= accept_sign(parser, '-');
		if (!expect_int(parser, &distance))
			return false;
	}
	op->offset = (int64_t)(negative ? 0 - distance : distance);
	return expect_sign(parser, ']');
}

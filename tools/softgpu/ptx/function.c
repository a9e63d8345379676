/* SPDX-License-Identifier: MIT */
/*
 * Bodies of functions: labels, nested scopes, branches and calls.
 *
 * A branch to a later label waits as a fixup. A label is seen in the scope of the label
 * and in scopes inside, so fixups are settled when a scope closes, or go on to the outer
 * scope.
 */
#include "parser.h"

#include <string.h>

static void fixup_apply(struct ptx_function *function, const struct fixup *fixup,
			uint32_t at)
{
	if (fixup->op == SIZE_MAX)
		function->targets[fixup->target] = at;
	else
		function->ops[fixup->op].target = at;
}

static void fixup_free(struct fixup *fixup)
{
	free(fixup->label);
	free(fixup);
}

static bool operand_label(struct parser *parser, size_t op, size_t target)
{
	struct fixup *fixup = calloc(1, sizeof(*fixup));

	if (!fixup)
		return parser_no_memory(parser);
	fixup->next = parser->fixups;
	parser->fixups = fixup;
	fixup->line = parser->lexer.token.line;
	fixup->scope = parser->scope;
	fixup->op = op;
	fixup->target = target;
	return expect_name(parser, &fixup->label);
}

/* Branches of a scope that ends find their label, or are left to the outer scope. */
static bool fixups_settle(struct parser *parser, struct scope *outer)
{
	struct fixup **link = &parser->fixups;

	while (*link) {
		struct fixup *fixup = *link;
		struct symbol *symbol = NULL;

		if (fixup->scope == parser->scope)
			HASH_FIND(hh, parser->scope->symbols, fixup->label,
				  strlen(fixup->label), symbol);
		if (symbol && symbol->kind == SYMBOL_LABEL) {
			fixup_apply(parser->function, fixup, (uint32_t)symbol->index);
			*link = fixup->next;
			fixup_free(fixup);
			continue;
		}
		if (fixup->scope == parser->scope) {
			if (!outer)
				return parser_fail_at(parser, fixup->line,
						      "no label '%s'", fixup->label);
			fixup->scope = outer;
		}
		link = &fixup->next;
	}
	return true;
}

bool parse_bra(struct parser *parser, struct op *op)
{
	(void)op;
	return operand_label(parser, parser->function->n_ops, 0);
}

bool parse_brx(struct parser *parser, struct op *op)
{
	const struct symbol *targets;
	const struct token *token = &parser->lexer.token;

	if (!operand_source(parser, TYPE_B32, false, &op->source[0]) ||
	    !expect_sign(parser, ','))
		return false;
	targets = symbol_find(parser, token->text, token->length);
	if (!targets || targets->kind != SYMBOL_TARGETS)
		return parser_fail(parser, "a list of targets expected");
	op->target = (uint32_t)targets->index;
	op->n_targets = targets->count;
	lexer_next(&parser->lexer);
	return true;
}

static bool targets_grow(struct parser *parser)
{
	struct ptx_function *function = parser->function;
	uint32_t *grown =
		realloc(function->targets, (function->n_targets + 1) * sizeof(*grown));

	if (!grown)
		return parser_no_memory(parser);
	function->targets = grown;
	function->targets[function->n_targets++] = 0;
	return true;
}

static bool parse_targets(struct parser *parser, char *name)
{
	struct symbol *symbol = symbol_add(parser, name, SYMBOL_TARGETS);

	if (!symbol)
		return false;
	symbol->index = (int32_t)parser->function->n_targets;
	do {
		const size_t n = parser->function->n_targets;

		if (!targets_grow(parser) || !operand_label(parser, SIZE_MAX, n))
			return false;
		symbol->count++;
	} while (accept_sign(parser, ','));
	return expect_sign(parser, ';');
}

static bool skip_statement(struct parser *parser)
{
	while (!token_is_sign(&parser->lexer.token, ';')) {
		if (parser->lexer.token.kind == TOKEN_END ||
		    parser->lexer.token.kind == TOKEN_BAD)
			return parser_fail(parser, "';' expected");
		lexer_next(&parser->lexer);
	}
	return expect_sign(parser, ';');
}

/* The target of a label: an op, or a list. */
static bool parse_label(struct parser *parser, char *name)
{
	struct symbol *symbol;

	if (accept_dot(parser, "branchtargets"))
		return parse_targets(parser, name);
	if (accept_dot(parser, "callprototype") || accept_dot(parser, "calltargets"))
		return symbol_add(parser, name, SYMBOL_PROTOTYPE) &&
		       skip_statement(parser);
	symbol = symbol_add(parser, name, SYMBOL_LABEL);
	if (symbol)
		symbol->index = (int32_t)parser->function->n_ops;
	return symbol != NULL;
}

/* The parts of a call as they are read. */
struct parts {
	struct argument list[256];
	size_t n;
	unsigned int line;
};

static bool parse_part(struct parser *parser, struct parts *parts)
{
	const struct token *token = &parser->lexer.token;
	struct argument *part = &parts->list[parts->n];
	const struct symbol *symbol =
		token->kind == TOKEN_NAME
			? symbol_find(parser, token->text, token->length)
			: NULL;

	if (parts->n == ARRAY_SIZE(parts->list))
		return parser_fail(parser, "too many arguments");
	parts->n++;
	*part = (struct argument){ .operand = OPERAND_NONE };
	if (symbol && symbol->kind == SYMBOL_PARAM && symbol->in_frame) {
		part->offset = (uint32_t)symbol->offset;
		part->size = (uint32_t)symbol->size;
		lexer_next(&parser->lexer);
		return true;
	}
	if (symbol &&
	    (symbol->kind == SYMBOL_REGISTER || symbol->kind == SYMBOL_REGISTERS))
		part->size = MAX(1U, type_size(symbol->type));
	return operand_source(parser, TYPE_NONE, true, &part->operand);
}

static bool parse_part_list(struct parser *parser, struct parts *parts)
{
	if (!accept_sign(parser, '('))
		return true;
	if (accept_sign(parser, ')'))
		return true;
	do {
		if (!parse_part(parser, parts))
			return false;
	} while (accept_sign(parser, ','));
	return expect_sign(parser, ')');
}

/* The sizes must be the callee's; a number is as large as it is wanted. */
static bool parts_check(struct parser *parser, struct parts *parts, size_t n_results,
			const struct ptx_function *callee)
{
	if (n_results != callee->n_results || parts->n != callee->n_formals)
		return parser_fail_at(
			parser, parts->line, "'%s' has %zu parameters and %zu results",
			callee->kernel.name, callee->n_formals - callee->n_results,
			callee->n_results);
	for (size_t i = 0; i < parts->n; i++) {
		struct argument *part = &parts->list[i];

		if (!part->size && part->operand.is_constant)
			part->size = callee->formals[i].size;
		if (part->size != callee->formals[i].size ||
		    (part->operand.index >= 0 && part->size > 8))
			return parser_fail_at(parser, parts->line,
					      "an argument does not fit '%s'",
					      callee->kernel.name);
	}
	return true;
}

static bool call_make(struct parser *parser, const struct parts *parts, size_t n_results,
		      struct ptx_function *callee, struct op *op)
{
	struct call *call = calloc(1, sizeof(*call) + parts->n * sizeof(struct argument));

	if (!call)
		return parser_no_memory(parser);
	call->callee = callee;
	call->n_results = n_results;
	call->n_arguments = parts->n - n_results;
	memcpy(call->parts, parts->list, parts->n * sizeof(struct argument));
	call->next = parser->function->calls;
	parser->function->calls = call;
	op->call = call;
	return true;
}

static bool parse_callee(struct parser *parser, struct op *op, struct ptx_function **ret)
{
	const struct token *token = &parser->lexer.token;
	const struct symbol *symbol =
		token->kind == TOKEN_NAME
			? symbol_find(parser, token->text, token->length)
			: NULL;

	*ret = NULL;
	if (!symbol || symbol->kind != SYMBOL_FUNCTION)
		return operand_source(parser, TYPE_B64, false, &op->source[0]);
	if (symbol->function->is_kernel)
		return parser_fail(parser, "'%s' is a kernel", symbol->name);
	if (!symbol->function->line)
		symbol->function->line = token->line;
	*ret = symbol->function;
	lexer_next(&parser->lexer);
	return true;
}

/* call (results), function, (arguments), prototype; */
bool parse_call(struct parser *parser, struct op *op)
{
	_cleanup_free_ struct parts *parts = calloc(1, sizeof(*parts));
	struct ptx_function *callee;
	size_t n_results;

	if (!parts)
		return parser_no_memory(parser);
	parts->line = parser->lexer.token.line;
	if (!parse_part_list(parser, parts))
		return false;
	n_results = parts->n;
	if (n_results && !expect_sign(parser, ','))
		return false;
	if (!parse_callee(parser, op, &callee))
		return false;
	if (accept_sign(parser, ',') && !parse_part_list(parser, parts))
		return false;
	if (!callee && accept_sign(parser, ',')) {
		const struct token *token = &parser->lexer.token;

		if (!symbol_find(parser, token->text, token->length))
			return parser_fail(parser, "no such prototype");
		lexer_next(&parser->lexer);
	}
	if (callee && !parts_check(parser, parts, n_results, callee))
		return false;
	parser->function->shares |= !callee || !callee->builtin;
	return call_make(parser, parts, n_results, callee, op);
}

static bool parse_guard(struct parser *parser, int32_t *ret, bool *ret_negated)
{
	struct operand operand;

	*ret_negated = accept_sign(parser, '!');
	if (!operand_source(parser, TYPE_PRED, false, &operand))
		return false;
	if (operand.is_constant)
		return parser_fail(parser, "a guard must be a register");
	*ret = operand.index;
	return true;
}

static bool is_label(const struct parser *parser)
{
	struct lexer ahead = parser->lexer;

	if (ahead.token.kind != TOKEN_NAME)
		return false;
	lexer_next(&ahead);
	return token_is_sign(&ahead.token, ':');
}

static bool parse_dot_statement(struct parser *parser)
{
	if (token_is(&parser->lexer.token, TOKEN_DOT, "loc"))
		return parse_loc(parser);
	if (accept_dot(parser, "pragma"))
		return skip_statement(parser);
	return parse_declaration(parser);
}

static bool parse_block(struct parser *parser);

static bool parse_statement(struct parser *parser)
{
	bool negated = false;
	int32_t guard = -1;
	char *name;

	if (token_is_sign(&parser->lexer.token, '{'))
		return parse_block(parser);
	if (accept_sign(parser, ';'))
		return true;
	if (parser->lexer.token.kind == TOKEN_DOT)
		return parse_dot_statement(parser);
	if (is_label(parser))
		return expect_name(parser, &name) && expect_sign(parser, ':') &&
		       parse_label(parser, name);
	if (accept_sign(parser, '@') && !parse_guard(parser, &guard, &negated))
		return false;
	return parse_instruction(parser, guard, negated);
}

/* A block inside a block is a call inside a call, on a stack of limited size. */
#define BLOCKS_MAX 256U

static bool parse_block(struct parser *parser)
{
	/* Outside of a body are the scopes of its parameters and of the module. */
	const bool is_nested = parser->scope->outer->outer != NULL;
	bool done;

	if (parser->depth == BLOCKS_MAX)
		return parser_fail(parser, "more than %u blocks, one inside another",
				   BLOCKS_MAX);
	if (!expect_sign(parser, '{') || !scope_open(parser))
		return false;
	parser->depth++;
	do {
		done = accept_sign(parser, '}');
	} while (!done && parse_statement(parser));
	if (done)
		done = fixups_settle(parser, is_nested ? parser->scope->outer : NULL);
	scope_close(parser);
	parser->depth--;
	return done;
}

bool parse_body(struct parser *parser)
{
	struct ptx_function *function = parser->function;
	const struct op end = { .run = op_return, .guard = -1 };
	bool done;

	parser->ops_capacity = 0;
	parser->place = 0;
	done = parse_block(parser) && op_emit(parser, &end);
	while (parser->fixups) {
		struct fixup *fixup = parser->fixups;

		parser->fixups = fixup->next;
		fixup_free(fixup);
	}
	function->param_size = (uint32_t)align_up(function->param_size, 16);
	function->local_size = (uint32_t)align_up(function->local_size, 16);
	return done;
}

/* SPDX-License-Identifier: MIT */
/*
 * Declarations: registers, and variables in every space with their initial values.
 *
 * Global and constant variables lie in the module's image, one after another; shared
 * ones in the kernel's or the module's; local ones in the frame; parameters in the
 * launch's or the frame's.
 */
#include "parser.h"

#include <string.h>
#include <sys/mman.h>

/* A variable may not be larger than any device's memory. */
#define SIZE_LIMIT ((uint64_t)1 << 40)

struct declared {
	enum space space;
	bool is_extern;
	uint64_t alignment;
	enum type type;
	unsigned int n_vector;
	uint64_t size;
	bool open; /* [] */
	bool is_array;
	char *name;
};

static bool parse_type(struct parser *parser, enum type *ret)
{
	const struct token *token = &parser->lexer.token;

	*ret = token->kind == TOKEN_DOT ? type_find(token->text, token->length)
					: TYPE_NONE;
	if (*ret == TYPE_NONE)
		return parser_fail(parser, "a type expected");
	lexer_next(&parser->lexer);
	return true;
}

static bool parse_align(struct parser *parser, uint64_t *ret)
{
	if (!accept_dot(parser, "align"))
		return true;
	if (!expect_int(parser, ret))
		return false;
	if (!*ret || *ret & (*ret - 1) || *ret > 4096)
		return parser_fail_at(parser, parser->lexer.token.line,
				      "an alignment that is no power of two");
	return true;
}

/* NAME, NAME<n>, in any number. */
static bool parse_registers(struct parser *parser)
{
	enum type type;

	if (!parser->function)
		return parser_fail(parser, "a register is outside of a function");
	if (accept_dot(parser, "v2") || accept_dot(parser, "v4"))
		return parser_fail(parser, "vector registers are not known");
	if (!parse_type(parser, &type))
		return false;
	do {
		struct symbol *symbol;
		uint64_t count = 1;
		char *name;

		if (!expect_name(parser, &name))
			return false;
		symbol = symbol_add(parser, name, SYMBOL_REGISTER);
		if (!symbol)
			return false;
		if (accept_sign(parser, '<')) {
			symbol->kind = SYMBOL_REGISTERS;
			if (!expect_int(parser, &count) || !expect_sign(parser, '>'))
				return false;
		}
		if (count > 1000000)
			return parser_fail(parser, "too many registers");
		symbol->type = type;
		symbol->index = (int32_t)parser->function->n_registers;
		symbol->count = (uint32_t)count;
		parser->function->n_registers += (uint32_t)count;
	} while (accept_sign(parser, ','));
	return expect_sign(parser, ';');
}

static bool parse_dimensions(struct parser *parser, struct declared *ret)
{
	while (accept_sign(parser, '[')) {
		uint64_t n = 0;

		ret->is_array = true;
		if (accept_sign(parser, ']')) {
			ret->open = true;
			ret->size = 0;
			continue;
		}
		if (!expect_int(parser, &n) || !expect_sign(parser, ']'))
			return false;
		if (__builtin_mul_overflow(ret->size, n, &ret->size) ||
		    ret->size > SIZE_LIMIT)
			return parser_fail(parser, "'%s' is too large", ret->name);
	}
	return true;
}

static bool is_managed(struct parser *parser)
{
	if (!accept_dot(parser, "attribute"))
		return true;
	return parser_fail(parser, "attributes of variables (.managed) are not known");
}

/* The attributes before the name. */
static bool parse_kind(struct parser *parser, struct declared *ret)
{
	ret->n_vector = 1;
	ret->alignment = 0;
	if (!is_managed(parser) || !parse_align(parser, &ret->alignment))
		return false;
	if (accept_dot(parser, "v2"))
		ret->n_vector = 2;
	else if (accept_dot(parser, "v4"))
		ret->n_vector = 4;
	if (!parse_type(parser, &ret->type))
		return false;
	if (ret->type == TYPE_PRED)
		return parser_fail(parser, "a predicate can only be a register");
	return true;
}

static bool parse_name(struct parser *parser, struct declared *ret)
{
	ret->size = (uint64_t)type_size(ret->type) * ret->n_vector;
	ret->alignment = MAX(ret->alignment, ret->size);
	ret->open = ret->is_array = false;
	return expect_name(parser, &ret->name) && parse_dimensions(parser, ret);
}

/* Room for the variable at the end of the image. Zeros that nobody stores need no memory.
 */
static bool image_grow(struct parser *parser, const struct declared *declared,
		       uint64_t *ret_offset)
{
	struct ptx_module *module = parser->module;
	const uint64_t offset = align_up(module->image_size, declared->alignment);
	const uint64_t size = offset + declared->size;
	void *grown;

	if (size > module->image_capacity) {
		const uint64_t capacity =
			align_up(MAX(size, module->image_capacity * 2), 4096);

		grown = module->image ? mremap(module->image, module->image_capacity,
					       capacity, MREMAP_MAYMOVE)
				      : mmap(NULL, capacity, PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
					     -1, 0);
		if (grown == MAP_FAILED)
			return parser_fail(parser, "the variables are too large");
		module->image = grown;
		module->image_capacity = capacity;
	}
	module->image_size = size;
	*ret_offset = offset;
	return true;
}

static bool patch_add(struct parser *parser, const struct patch *patch)
{
	struct ptx_module *module = parser->module;
	struct patch *grown;

	if ((module->n_patches & (module->n_patches - 1)) == 0) {
		grown = realloc(module->patches,
				MAX((size_t)1, module->n_patches * 2) * sizeof(*grown));
		if (!grown)
			return parser_no_memory(parser);
		module->patches = grown;
	}
	module->patches[module->n_patches++] = *patch;
	return true;
}

/* NAME, generic(NAME), NAME+n: an address that is known when the module is placed. */
static bool value_address(struct parser *parser, struct patch *patch)
{
	const bool generic = accept_name(parser, "generic") && expect_sign(parser, '(');
	const struct token *token = &parser->lexer.token;
	struct symbol *symbol = symbol_find(parser, token->text, token->length);
	uint64_t distance = 0;

	if (parser->error)
		return false;
	if (!symbol)
		return parser_fail(parser, "'%.*s' is not declared",
				   (int)MIN(token->length, (size_t)200), token->text);
	if (symbol->kind == SYMBOL_VARIABLE && !symbol->count) {
		patch->value = symbol->offset;
		patch->to_image = true;
	} else if (symbol->kind == SYMBOL_FUNCTION) {
		patch->value = CODE_BASE + (uint64_t)CODE_STEP * symbol->function->code;
		if (!symbol->function->line)
			symbol->function->line = token->line;
	} else {
		return parser_fail(parser, "'%s' has no address yet", symbol->name);
	}
	lexer_next(&parser->lexer);
	if (generic && !expect_sign(parser, ')'))
		return false;
	if (accept_sign(parser, '+') && !expect_int(parser, &distance))
		return false;
	patch->value += distance;
	return patch_add(parser, patch);
}

/* The bytes that a mask such as 0xFF00 takes of an address. */
static bool value_masked(struct parser *parser, uint64_t mask, struct patch *patch)
{
	if (!mask)
		return parser_fail(parser, "an empty mask");
	patch->shift = (unsigned char)__builtin_ctzll(mask);
	return value_address(parser, patch) && expect_sign(parser, ')');
}

static bool value_float(const struct token *token, enum type type, bool negative,
			uint64_t *ret)
{
	float narrow = (float)token->number;
	uint32_t bits;

	if (type == TYPE_F64 && !token->single) {
		*ret = token->value ^ (uint64_t)negative << 63;
		return true;
	}
	if (type != TYPE_F32)
		return false;
	memcpy(&bits, &narrow, sizeof(bits));
	if (token->single)
		bits = (uint32_t)token->value;
	*ret = bits ^ (uint32_t)negative << 31;
	return true;
}

static bool value_parse(struct parser *parser, enum type type, uint64_t offset)
{
	struct patch patch = { .offset = offset, .size = type_size(type) };
	const bool negative = accept_sign(parser, '-');
	const struct token *token = &parser->lexer.token;
	uint64_t value;

	if (token->kind == TOKEN_NAME && !negative)
		return value_address(parser, &patch);
	if (token->kind == TOKEN_FLOAT) {
		if (!value_float(token, type, negative, &value))
			return parser_fail(parser, "a number that is no .%s",
					   types[type].name);
		lexer_next(&parser->lexer);
	} else {
		if (type_is_float(type) && type != TYPE_F16)
			return parser_fail(parser, "an integer where a .%s is wanted",
					   types[type].name);
		if (!expect_int(parser, &value))
			return false;
		if (accept_sign(parser, '('))
			return value_masked(parser, value, &patch);
		value = negative ? 0 - value : value;
	}
	memcpy(parser->module->image + offset, &value, patch.size);
	return true;
}

/* Nested braces only group: values follow each other. */
static bool values_parse(struct parser *parser, const struct declared *declared,
			 uint64_t offset)
{
	const uint32_t size = type_size(declared->type);
	unsigned int depth = 0;
	uint64_t n = 0;

	do {
		while (accept_sign(parser, '{'))
			depth++;
		if (!token_is_sign(&parser->lexer.token, '}')) {
			if ((n + 1) * size > declared->size)
				return parser_fail(parser, "more values than '%s' holds",
						   declared->name);
			if (!value_parse(parser, declared->type, offset + n * size))
				return false;
			n++;
		}
		while (depth && accept_sign(parser, '}'))
			depth--;
	} while (accept_sign(parser, ','));
	return !depth || parser_fail(parser, "'}' expected");
}

/* An open array is as long as its values: they are counted ahead. */
static uint64_t values_count(struct parser *parser)
{
	const struct lexer before = parser->lexer;
	unsigned int depth = 0;
	uint64_t n = 0;
	bool in_value = false;

	do {
		const struct token *token = &parser->lexer.token;

		if (token_is_sign(token, '{')) {
			depth++;
			in_value = false;
		} else if (token_is_sign(token, '}')) {
			depth--;
		} else if (token_is_sign(token, ',')) {
			in_value = false;
		} else if (!in_value) {
			in_value = true;
			n++;
		}
		lexer_next(&parser->lexer);
	} while (depth && parser->lexer.token.kind != TOKEN_END &&
		 parser->lexer.token.kind != TOKEN_BAD);
	parser->lexer = before;
	return n;
}

static bool declare_global(struct parser *parser, struct declared *declared)
{
	struct variable *variable;
	struct symbol *symbol;
	uint64_t offset = 0;
	const bool has_values = accept_sign(parser, '=');

	if (has_values && declared->open)
		declared->size = values_count(parser) * type_size(declared->type);
	symbol = symbol_add(parser, strdup(declared->name), SYMBOL_VARIABLE);
	if (!symbol)
		return false;
	symbol->size = declared->size;
	if (declared->is_extern) {
		symbol->count = 1;
		return true;
	}
	if (!image_grow(parser, declared, &offset))
		return false;
	symbol->offset = offset;
	if (has_values && !values_parse(parser, declared, offset))
		return false;
	variable = calloc(1, sizeof(*variable));
	if (!variable)
		return parser_no_memory(parser);
	variable->name = strdup(declared->name);
	variable->offset = offset;
	variable->size = declared->size;
	variable->next = parser->module->variables;
	parser->module->variables = variable;
	if (declared->space == SPACE_CONST)
		parser->module->const_size += (uint32_t)declared->size;
	return variable->name || parser_no_memory(parser);
}

/* Places a variable after the `used` bytes. */
static bool place(struct parser *parser, const struct declared *declared, uint32_t *used,
		  uint64_t *ret)
{
	const uint64_t offset = align_up(*used, declared->alignment);

	if (offset + declared->size > UINT32_MAX / 2)
		return parser_fail(parser, "'%s' is too large", declared->name);
	*used = (uint32_t)(offset + declared->size);
	*ret = offset;
	return true;
}

static bool declare_shared(struct parser *parser, const struct declared *declared)
{
	const bool is_dynamic = declared->is_extern && declared->open;
	struct ptx_function *function = parser->function;
	const bool of_kernel = function && function->is_kernel;
	struct symbol *symbol = symbol_add(parser, strdup(declared->name),
					   is_dynamic ? SYMBOL_DYNAMIC : SYMBOL_SHARED);

	if (!symbol || is_dynamic)
		return symbol != NULL;
	symbol->of_kernel = of_kernel;
	return place(parser, declared,
		     of_kernel ? &function->shared_size : &parser->module->shared_size,
		     &symbol->offset);
}

static bool declare_in_frame(struct parser *parser, const struct declared *declared)
{
	const bool is_local = declared->space == SPACE_LOCAL;
	struct ptx_function *function = parser->function;
	struct symbol *symbol;

	if (!function)
		return parser_fail(parser, "'%s' is outside of a function",
				   declared->name);
	symbol = symbol_add(parser, strdup(declared->name),
			    is_local ? SYMBOL_LOCAL : SYMBOL_PARAM);
	if (!symbol)
		return false;
	symbol->size = declared->size;
	symbol->in_frame = !is_local;
	return place(parser, declared,
		     is_local ? &function->local_size : &function->param_size,
		     &symbol->offset);
}

static bool declare(struct parser *parser, struct declared *declared)
{
	switch (declared->space) {
	case SPACE_GLOBAL:
	case SPACE_CONST:
		return declare_global(parser, declared);
	case SPACE_SHARED:
		return declare_shared(parser, declared);
	default:
		return declare_in_frame(parser, declared);
	}
}

static bool parse_variables(struct parser *parser, struct declared *declared)
{
	if (!parse_kind(parser, declared))
		return false;
	do {
		const uint64_t alignment = declared->alignment;
		bool done;

		declared->name = NULL;
		done = parse_name(parser, declared) && declare(parser, declared);
		free(declared->name);
		declared->alignment = alignment;
		if (!done)
			return false;
	} while (accept_sign(parser, ','));
	return expect_sign(parser, ';');
}

bool parse_declaration(struct parser *parser)
{
	static const struct {
		const char *word;
		enum space space;
	} spaces[] = {
		{ "global", SPACE_GLOBAL }, { "const", SPACE_CONST },
		{ "shared", SPACE_SHARED }, { "local", SPACE_LOCAL },
		{ "param", SPACE_PARAM },
	};
	struct declared declared = { 0 };
	bool more = true;

	while (more) {
		more = accept_dot(parser, "visible") || accept_dot(parser, "weak") ||
		       accept_dot(parser, "common");
		if (accept_dot(parser, "extern"))
			more = declared.is_extern = true;
	}
	if (accept_dot(parser, "reg"))
		return parse_registers(parser);
	for (size_t i = 0; i < ARRAY_SIZE(spaces); i++) {
		if (!accept_dot(parser, spaces[i].word))
			continue;
		declared.space = spaces[i].space;
		return parse_variables(parser, &declared);
	}
	return parser_fail(parser, "unknown directive '.%.*s'",
			   (int)MIN(parser->lexer.token.length, (size_t)64),
			   parser->lexer.token.text);
}

static bool formal_add(struct parser *parser, struct ptx_function *function,
		       const struct formal *formal)
{
	struct formal *grown =
		realloc(function->formals, (function->n_formals + 1) * sizeof(*grown));

	if (!grown)
		return parser_no_memory(parser);
	function->formals = grown;
	function->formals[function->n_formals++] = *formal;
	return true;
}

/* .ptr, of a space and an alignment: a promise that nothing here needs. */
static bool skip_pointer(struct parser *parser)
{
	uint64_t alignment;

	if (!accept_dot(parser, "ptr"))
		return true;
	if (!accept_dot(parser, "global") && !accept_dot(parser, "const") &&
	    !accept_dot(parser, "shared") && !accept_dot(parser, "local"))
		accept_dot(parser, "generic");
	return parse_align(parser, &alignment);
}

static bool formal_param(struct parser *parser, struct ptx_function *function,
			 struct declared *declared)
{
	struct formal formal = { .reg = -1 };
	struct symbol *symbol;
	uint64_t offset = 0;
	bool done;

	if (!parse_kind(parser, declared) || !skip_pointer(parser))
		return false;
	done = parse_name(parser, declared) &&
	       place(parser, declared, &function->param_size, &offset);
	if (!done)
		return false;
	formal.offset = (uint32_t)offset;
	formal.size = (uint32_t)declared->size;
	if (!formal_add(parser, function, &formal))
		return false;
	if (!strcmp(declared->name, "_"))
		return true;
	symbol = symbol_add(parser, strdup(declared->name), SYMBOL_PARAM);
	if (!symbol)
		return false;
	symbol->offset = offset;
	symbol->size = declared->size;
	symbol->in_frame = !function->is_kernel;
	return true;
}

static bool formal_register(struct parser *parser, struct ptx_function *function)
{
	struct formal formal = { .reg = (int32_t)function->n_registers };
	struct symbol *symbol;
	enum type type;
	char *name;

	if (!parse_type(parser, &type) || !expect_name(parser, &name))
		return false;
	symbol = symbol_add(parser, name, SYMBOL_REGISTER);
	if (!symbol)
		return false;
	symbol->type = type;
	symbol->index = formal.reg;
	symbol->count = 1;
	function->n_registers++;
	formal.size = MAX(1U, type_size(type));
	return formal_add(parser, function, &formal);
}

bool parse_formal(struct parser *parser, struct ptx_function *function, bool is_result)
{
	struct declared declared = { .space = SPACE_PARAM };
	bool done;

	if (accept_dot(parser, "reg")) {
		done = formal_register(parser, function);
	} else {
		if (!accept_dot(parser, "param"))
			return parser_fail(parser, "a parameter expected");
		done = formal_param(parser, function, &declared);
		free(declared.name);
	}
	if (done && is_result)
		function->n_results++;
	return done;
}

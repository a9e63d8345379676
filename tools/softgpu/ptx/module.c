/* SPDX-License-Identifier: MIT */
/*
 * Modules: the directives around functions and variables, and what can be asked of a
 * module afterwards.
 */
#include "builtin.h"
#include "parser.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static bool parse_version(struct parser *parser)
{
	const struct token *token = &parser->lexer.token;
	const unsigned int has = parser->target->version;
	unsigned int version;

	if (!accept_dot(parser, "version"))
		return parser_fail(parser, "'.version' expected: this is no PTX");
	/* No comparison with a NaN holds. */
	if (token->kind != TOKEN_FLOAT || !(token->number >= 1 && token->number <= 99))
		return parser_fail(parser, "a version expected");
	version = (unsigned int)(token->number * 10 + 0.5);
	parser->module->target.version = version;
	if (version > has) {
		parser_fail(parser, "PTX %u.%u is newer than this driver's %u.%u",
			    version / 10, version % 10, has / 10, has % 10);
		parser->error = -ENOTSUP;
		return false;
	}
	lexer_next(&parser->lexer);
	return true;
}

/* sm_80, and sm_90a, which runs on just this capability. */
static bool target_take(struct parser *parser, const char *name)
{
	const unsigned int has = parser->target->capability;
	unsigned int capability = 0;
	char kind = '\0';

	if (sscanf(name, "sm_%3u%c", &capability, &kind) < 1)
		return !strncmp(name, "texmode_", 8) || !strcmp(name, "debug") ||
		       !strcmp(name, "map_f64_to_f32") ||
		       parser_fail(parser, "unknown target '%s'", name);
	parser->module->target.capability = capability;
	if (capability <= has && (kind != 'a' || capability == has))
		return true;
	parser_fail(parser, "the target %s is not this device's sm_%u", name, has);
	parser->error = -ENOEXEC;
	return false;
}

static bool parse_target(struct parser *parser)
{
	if (!accept_dot(parser, "target"))
		return parser_fail(parser, "'.target' expected");
	do {
		char *name;
		bool done;

		if (!expect_name(parser, &name))
			return false;
		done = target_take(parser, name);
		free(name);
		if (!done)
			return false;
	} while (accept_sign(parser, ','));
	return true;
}

static bool parse_address_size(struct parser *parser)
{
	uint64_t size;

	if (!accept_dot(parser, "address_size"))
		return true;
	if (!expect_int(parser, &size))
		return false;
	return size == 64 || parser_fail(parser, "only addresses of 64 bits are known");
}

/* Up to three numbers. */
static bool parse_dim(struct parser *parser, struct ptx_dim *ret)
{
	uint64_t numbers[3] = { 0, 1, 1 };
	size_t n = 0;

	do {
		if (n == 3 || !expect_int(parser, &numbers[n]))
			return parser_fail(parser, "more than three numbers");
		n++;
	} while (accept_sign(parser, ','));
	*ret = (struct ptx_dim){ (uint32_t)numbers[0], (uint32_t)numbers[1],
				 (uint32_t)numbers[2] };
	return true;
}

/* The directives between a signature and the body. */
static bool parse_attributes(struct parser *parser, struct ptx_kernel *kernel)
{
	static const char *const numbers[] = { "minnctapersm", "maxnctapersm",
					       "maxnreg",      "maxclusterrank",
					       "abi_preserve", "abi_preserve_control" };
	static const char *const words[] = { "noreturn", "explicitcluster",
					     "blocksareclusters" };
	struct ptx_dim ignored;
	bool known = true;

	while (known && parser->lexer.token.kind == TOKEN_DOT) {
		struct ptx_dim *dim = NULL;

		known = false;
		if (accept_dot(parser, "maxntid"))
			dim = &kernel->max_block;
		else if (accept_dot(parser, "reqntid"))
			dim = &kernel->required;
		else if (accept_dot(parser, "reqnctapercluster"))
			dim = &kernel->cluster;
		for (size_t i = 0; i < ARRAY_SIZE(numbers) && !dim; i++)
			if (accept_dot(parser, numbers[i]))
				dim = &ignored;
		if (dim && !parse_dim(parser, dim))
			return false;
		known = dim != NULL;
		for (size_t i = 0; i < ARRAY_SIZE(words) && !known; i++)
			known = accept_dot(parser, words[i]);
		if (!known && accept_dot(parser, "pragma")) {
			if (parser->lexer.token.kind == TOKEN_STRING)
				lexer_next(&parser->lexer);
			known = expect_sign(parser, ';');
		}
	}
	return !parser->error;
}

static bool parse_formals(struct parser *parser, struct ptx_function *function,
			  bool is_result)
{
	if (!accept_sign(parser, '('))
		return true;
	if (accept_sign(parser, ')'))
		return true;
	do {
		if (!parse_formal(parser, function, is_result))
			return false;
	} while (accept_sign(parser, ','));
	return expect_sign(parser, ')');
}

static struct ptx_function *function_new(struct parser *parser, const char *name)
{
	struct ptx_module *module = parser->module;
	struct ptx_function *function = calloc(1, sizeof(*function));

	if (!function)
		return NULL;
	function->module = module;
	function->kernel.name = strdup(name);
	function->builtin = builtin_find(name);
	function->code = (uint32_t)module->n_functions++;
	*module->tail = function;
	module->tail = &function->next;
	return function->kernel.name ? function : NULL;
}

/* The function of the name, perhaps declared before. */
static struct ptx_function *function_declare(struct parser *parser, const char *name,
					     bool is_kernel)
{
	struct symbol *symbol = symbol_find(parser, name, strlen(name));

	if (!symbol) {
		struct ptx_function *function = function_new(parser, name);
		char *copy = strdup(name);

		if (!function || !copy) {
			free(copy);
			parser_no_memory(parser);
			return NULL;
		}
		symbol = symbol_add(parser, copy, SYMBOL_FUNCTION);
		if (!symbol)
			return NULL;
		symbol->function = function;
	}
	if (symbol->kind != SYMBOL_FUNCTION || symbol->function->is_defined) {
		parser_fail(parser, "'%s' is defined twice", name);
		return NULL;
	}
	symbol->function->is_kernel = is_kernel;
	return symbol->function;
}

static bool kernel_params(struct parser *parser, struct ptx_function *function)
{
	struct ptx_kernel *kernel = &function->kernel;
	struct ptx_param *params = calloc(function->n_formals + 1, sizeof(*params));

	if (!params)
		return parser_no_memory(parser);
	for (size_t i = 0; i < function->n_formals; i++) {
		params[i].offset = function->formals[i].offset;
		params[i].size = function->formals[i].size;
	}
	free((void *)(uintptr_t)kernel->params);
	kernel->params = params;
	kernel->n_params = function->n_formals;
	kernel->params_size = function->param_size;
	function->param_size = 0;
	function->n_formals = 0;
	return true;
}

/* The results have been read before the name was known. */
static bool parse_signature(struct parser *parser, struct ptx_function *results,
			    bool is_kernel)
{
	struct ptx_function *function;
	char *name;

	if (!expect_name(parser, &name))
		return false;
	/* In the module's scope, not in that of the results. */
	struct scope *inner = parser->scope;
	parser->scope = inner->outer;
	function = function_declare(parser, name, is_kernel);
	parser->scope = inner;
	free(name);
	if (!function)
		return false;
	free(function->formals);
	function->formals = take_ptr(results->formals);
	function->n_formals = results->n_formals;
	function->n_results = results->n_results;
	function->param_size = results->param_size;
	function->n_registers = results->n_registers;
	parser->function = function;
	if (!parse_formals(parser, function, false))
		return false;
	if (is_kernel && !kernel_params(parser, function))
		return false;
	return parse_attributes(parser, &function->kernel);
}

static bool parse_function(struct parser *parser, bool is_kernel)
{
	struct ptx_function results = { .kernel.name = "" };
	bool done;

	if (!scope_open(parser))
		return false;
	done = (is_kernel || parse_formals(parser, &results, true)) &&
	       parse_signature(parser, &results, is_kernel);
	free(results.formals);
	if (done && !accept_sign(parser, ';')) {
		parser->function->is_defined = true;
		parser->function->builtin = BUILTIN_NONE;
		done = parse_body(parser);
	}
	parser->function = NULL;
	scope_close(parser);
	return done;
}

/* .section NAME { ... }: debug information. */
static bool skip_section(struct parser *parser)
{
	unsigned int depth = 0;

	do {
		if (token_is_sign(&parser->lexer.token, '{'))
			depth++;
		else if (token_is_sign(&parser->lexer.token, '}'))
			depth -= depth > 0;
		else if (parser->lexer.token.kind == TOKEN_END ||
			 parser->lexer.token.kind == TOKEN_BAD)
			return parser_fail(parser, "'}' expected");
		else if (!depth && parser->lexer.token.kind != TOKEN_DOT &&
			 parser->lexer.token.kind != TOKEN_NAME)
			return parser_fail(parser, "'{' expected");
		else {
			lexer_next(&parser->lexer);
			continue;
		}
		lexer_next(&parser->lexer);
		if (!depth)
			return true;
	} while (true);
}

/* Whether a function comes, behind words on its linkage. */
static bool is_function(const struct parser *parser, bool *ret_kernel)
{
	struct lexer ahead = parser->lexer;

	while (token_is(&ahead.token, TOKEN_DOT, "visible") ||
	       token_is(&ahead.token, TOKEN_DOT, "extern") ||
	       token_is(&ahead.token, TOKEN_DOT, "weak") ||
	       token_is(&ahead.token, TOKEN_DOT, "common"))
		lexer_next(&ahead);
	*ret_kernel = token_is(&ahead.token, TOKEN_DOT, "entry");
	return *ret_kernel || token_is(&ahead.token, TOKEN_DOT, "func");
}

static bool parse_directive(struct parser *parser)
{
	bool is_kernel;

	if (token_is(&parser->lexer.token, TOKEN_DOT, "file"))
		return parse_file(parser);
	if (token_is(&parser->lexer.token, TOKEN_DOT, "loc") ||
	    token_is(&parser->lexer.token, TOKEN_DOT, "pragma")) {
		skip_line(parser);
		return true;
	}
	if (accept_dot(parser, "section"))
		return skip_section(parser);
	if (!is_function(parser, &is_kernel))
		return parse_declaration(parser);
	while (!accept_dot(parser, is_kernel ? "entry" : "func"))
		lexer_next(&parser->lexer);
	return parse_function(parser, is_kernel);
}

static uint32_t registers_of(const struct ptx_function *function)
{
	return MAX(8U, MIN(64U, (function->n_registers + 7) & ~7U));
}

/* Checks that need the whole text. */
static bool module_finish(struct parser *parser)
{
	struct ptx_module *module = parser->module;

	module->by_code = calloc(module->n_functions + 1, sizeof(struct ptx_function *));
	if (!module->by_code)
		return parser_no_memory(parser);
	for (struct ptx_function *f = module->functions; f; f = f->next) {
		module->by_code[f->code] = f;
		if (f->line && !f->is_defined && !f->builtin)
			return parser_fail_at(parser, f->line,
					      "the function '%s' is defined nowhere",
					      f->kernel.name);
		f->kernel.shared_size = f->shared_size;
		if (f->shares && module->shared_size)
			f->kernel.shared_size +=
				(uint32_t)align_up(module->shared_size, 128);
		f->kernel.local_size = f->local_size;
		f->kernel.const_size = module->const_size;
		f->kernel.n_registers = registers_of(f);
	}
	return true;
}

static bool parse_module(struct parser *parser)
{
	if (!parse_version(parser) || !parse_target(parser) ||
	    !parse_address_size(parser))
		return false;
	while (parser->lexer.token.kind != TOKEN_END) {
		if (parser->lexer.token.kind == TOKEN_BAD)
			return parser_fail(parser, "something that is no PTX");
		if (accept_sign(parser, ';'))
			continue;
		if (!parse_directive(parser))
			return false;
	}
	return module_finish(parser);
}

int ptx_module_new(const char *text, size_t length, const struct ptx_target *target,
		   struct ptx_module **ret, struct text *log)
{
	struct ptx_module *module = calloc(1, sizeof(*module));
	struct parser parser = { .module = module, .target = target, .log = log };
	bool done;

	if (!module)
		return -ENOMEM;
	module->tail = &module->functions;
	lexer_init(&parser.lexer, text, length);
	done = scope_open(&parser) && parse_module(&parser);
	while (parser.scope)
		scope_close(&parser);
	if (!done) {
		ptx_module_free(module);
		return parser.error ? parser.error : -EINVAL;
	}
	*ret = module;
	return 0;
}

static void function_free(struct ptx_function *function)
{
	while (function->calls) {
		struct call *call = function->calls;

		function->calls = call->next;
		free(call);
	}
	free((void *)(uintptr_t)function->kernel.name);
	free((void *)(uintptr_t)function->kernel.params);
	free(function->ops);
	free(function->targets);
	free(function->constants);
	free(function->values);
	free(function->formals);
	free(function->places);
	free(function);
}

struct ptx_module *ptx_module_free(struct ptx_module *module)
{
	if (!module)
		return NULL;
	while (module->functions) {
		struct ptx_function *function = module->functions;

		module->functions = function->next;
		function_free(function);
	}
	while (module->variables) {
		struct variable *variable = module->variables;

		module->variables = variable->next;
		free(variable->name);
		free(variable);
	}
	while (module->sources) {
		struct source *source = module->sources;

		module->sources = source->next;
		free(source);
	}
	free(module->by_code);
	free(module->patches);
	if (module->image)
		munmap(module->image, module->image_capacity);
	free(module);
	return NULL;
}

uint64_t ptx_module_size(const struct ptx_module *module)
{
	return module->image_size;
}

static uint64_t constant_value(const struct ptx_function *function,
			       const struct constant *constant)
{
	const struct ptx_module *module = function->module;

	switch (constant->relocation) {
	case RELOCATE_IMAGE:
		return constant->value + module->address;
	case RELOCATE_SHARED:
		return constant->value + function->kernel.shared_size -
		       function->shared_size;
	default:
		return constant->value;
	}
}

static int function_place(struct ptx_function *function)
{
	const size_t n = function->n_constants;

	free(function->values);
	function->values = calloc(n + 1, sizeof(*function->values));
	if (!function->values)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const uint64_t value = constant_value(function, &function->constants[i]);

		for (size_t lane = 0; lane < LANES; lane++)
			function->values[i][lane] = value;
	}
	return 0;
}

static void patch_apply(const struct ptx_module *module, const struct patch *patch)
{
	const uint64_t value =
		(patch->value + (patch->to_image ? module->address : 0)) >> patch->shift;

	memcpy((unsigned char *)(uintptr_t)module->address + patch->offset, &value,
	       patch->size);
}

int ptx_module_place(struct ptx_module *module, uint64_t address)
{
	module->address = address;
	if (module->image_size)
		memcpy((void *)(uintptr_t)address, module->image, module->image_size);
	for (size_t i = 0; i < module->n_patches; i++)
		patch_apply(module, &module->patches[i]);
	for (struct ptx_function *f = module->functions; f; f = f->next)
		if (function_place(f) < 0)
			return -ENOMEM;
	return 0;
}

struct ptx_target ptx_module_target(const struct ptx_module *module)
{
	return module->target;
}

struct ptx_function *ptx_module_kernel(struct ptx_module *module, size_t index)
{
	struct ptx_function *function = module->functions;

	while (function && (!function->is_kernel || index-- > 0))
		function = function->next;
	return function;
}

bool ptx_module_variable(const struct ptx_module *module, const char *name,
			 uint64_t *ret_address, uint64_t *ret_size)
{
	const struct variable *variable = module->variables;

	while (variable && strcmp(variable->name, name))
		variable = variable->next;
	if (!variable)
		return false;
	*ret_address = module->address + variable->offset;
	*ret_size = variable->size;
	return true;
}

const struct ptx_kernel *ptx_kernel_of(const struct ptx_function *function)
{
	return &function->kernel;
}

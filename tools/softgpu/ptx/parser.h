/* SPDX-License-Identifier: MIT */
/*
 * Making a module from text: declarations common to the files of the parser.
 *
 * The first error is written to the log with the line, and every function returns false
 * from there on.
 */
#pragma once

#include "lexer.h"
#include "module.h"
#include "table.h"

#include <uthash.h>

enum symbol_kind {
	SYMBOL_REGISTER,
	SYMBOL_REGISTERS, /* NAME0 to NAMEn-1 */
	SYMBOL_VARIABLE,  /* global or constant */
	SYMBOL_SHARED,	  /* static, of the module or of this kernel */
	SYMBOL_DYNAMIC,	  /* extern .shared name[] */
	SYMBOL_LOCAL,
	SYMBOL_PARAM, /* of the kernel, or of the frame */
	SYMBOL_FUNCTION,
	SYMBOL_LABEL,
	SYMBOL_TARGETS, /* .branchtargets */
	SYMBOL_PROTOTYPE,
};

struct symbol {
	UT_hash_handle hh;
	char *name;
	enum symbol_kind kind;
	enum type type;	 /* of registers */
	int32_t index;	 /* the first register; the op of a label */
	uint32_t count;	 /* of registers, of targets */
	uint64_t offset; /* of memory */
	uint64_t size;
	bool in_frame;	/* a parameter of a device function or of a call */
	bool of_kernel; /* shared memory of this kernel alone */
	struct ptx_function *function;
};

struct scope {
	struct scope *outer;
	struct symbol *symbols;
};

/* A branch to a label that has not been seen. */
struct fixup {
	struct fixup *next;
	char *label;
	struct scope *scope;
	size_t op;     /* its target, or */
	size_t target; /* this one of the function's, when op is SIZE_MAX */
	unsigned int line;
};

struct parser {
	struct lexer lexer;
	struct ptx_module *module;
	const struct ptx_target *target;
	struct text *log;
	int error; /* negative errno of the failure */
	struct scope *scope;

	/* The function being read. */
	struct ptx_function *function;
	size_t ops_capacity;
	unsigned int depth; /* of the block being read: 1 is the body */
	struct fixup *fixups;
	uint32_t place; /* of the ops that follow; 0: not known */
};

/* Reports an error, once, at the current token or at a line. */
bool parser_fail(struct parser *parser, const char *format, ...) _printf_(2, 3);
bool parser_fail_at(struct parser *parser, unsigned int line, const char *format, ...)
	_printf_(3, 4);
bool parser_no_memory(struct parser *parser);

/*
 * Tokens. accept goes on where the token fits; expect fails where the token doesn't fit.
 */
bool accept_sign(struct parser *parser, char sign);
bool accept_dot(struct parser *parser, const char *word);
bool accept_name(struct parser *parser, const char *word);
bool expect_sign(struct parser *parser, char sign);
bool expect_int(struct parser *parser, uint64_t *ret);
/* The caller frees *ret. */
bool expect_name(struct parser *parser, char **ret);

/* Scopes and names. */
bool scope_open(struct parser *parser);
void scope_close(struct parser *parser);
/* Takes name over. Returns: a symbol to be filled in, or NULL after failing. */
struct symbol *symbol_add(struct parser *parser, char *name, enum symbol_kind kind);
struct symbol *symbol_find(struct parser *parser, const char *name, size_t length);

/* Declarations: .reg, .local, .shared, .param, .global, .const. */
bool parse_declaration(struct parser *parser);
/* One .param or .reg of a signature. */
bool parse_formal(struct parser *parser, struct ptx_function *function, bool is_result);

/* A body from { to }. */
bool parse_body(struct parser *parser);

/* Skips all other tokens of the line. */
void skip_line(struct parser *parser);

/* .file and .loc, of the compiler's notes on lines; what is odd there is skipped. */
bool parse_file(struct parser *parser);
bool parse_loc(struct parser *parser);

/* An instruction, from the name to the semicolon. */
bool parse_instruction(struct parser *parser, int32_t guard, bool guard_negated);

/* Operands. */
bool operand_source(struct parser *parser, enum type type, bool wider,
		    struct operand *ret);
bool operand_to(struct parser *parser, enum type type, bool wider, struct op *op,
		struct operand *ret);
bool operand_predicate(struct parser *parser, struct operand *ret);
bool operand_memory(struct parser *parser, struct op *op);
bool operands_parse(struct parser *parser, struct op *op, const char *pattern);

/* Makes room for another op. Returns: NULL after failing. */
struct op *op_new(struct parser *parser);
bool op_emit(struct parser *parser, const struct op *op);
int32_t register_new(struct parser *parser);
struct operand constant_new(struct parser *parser, uint64_t value, enum relocation how);

static inline struct operand operand_register(int32_t index)
{
	return (struct operand){ index, false };
}

/* Special registers. Returns: NULL when there is none of the name. */
struct special;
const struct special *special_find(const char *name, size_t length, uint32_t *ret_number);
void special_op(const struct special *special, uint32_t number, struct operand to,
		struct op *ret);
enum type special_type(const struct special *special);

/* Ops that the parser itself puts in. */
void op_not(struct warp *warp, const struct op *op, uint32_t mask);
void op_local_address(struct warp *warp, const struct op *op, uint32_t mask);
void op_dynamic_shared(struct warp *warp, const struct op *op, uint32_t mask);
void op_return(struct warp *warp, const struct op *op, uint32_t mask);

/* The parse functions of rows. */
bool parse_call(struct parser *parser, struct op *op);
bool parse_bra(struct parser *parser, struct op *op);
bool parse_brx(struct parser *parser, struct op *op);

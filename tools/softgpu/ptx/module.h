/* SPDX-License-Identifier: MIT */
/*
 * A module after decoding. Shared by the parser, which makes modules, and the executor,
 * which only reads them.
 *
 * A function is an array of ops. An op has a handler and operands; an operand is a
 * register of the function or a constant of the function. Labels are indices of ops.
 */
#pragma once

#include "modifier.h"
#include "ptx.h"
#include "type.h"

#define LANES 32

struct warp;
struct op;

/* Runs an op for the lanes in the mask, which is not empty. */
typedef void op_handler(struct warp *warp, const struct op *op, uint32_t mask);

struct operand {
	int32_t index; /* of a register, or of a constant */
	bool is_constant;
};

#define OPERAND_NONE      \
	(struct operand)  \
	{                 \
		-1, false \
	}

#define OP_VECTOR 8

struct op {
	op_handler *run;
	int32_t guard; /* a predicate register, or -1 */
	bool guard_negated;
	bool in_frame; /* .param memory of a device function, not of the kernel */
	unsigned char n_vector;
	unsigned char n_sources;
	unsigned char register_bits; /* of the destination */
	enum type type;
	enum type from; /* the second type of those that have one */
	struct modifiers mods;
	struct operand to;
	struct operand to_pred;
	struct operand from_pred;
	struct operand source[4];
	struct operand vector[OP_VECTOR];
	int64_t offset;	    /* of an address */
	uint32_t target;    /* a label; of brx the first in targets */
	uint32_t n_targets; /* of brx */
	const struct call *call;
	uint32_t line;
	uint32_t place; /* in the function's places, from 1 on; 0: not known */
};

/* A line of the source; of an inlined function also the line that it was inlined to. */
struct place {
	uint32_t file, line;
	uint32_t to_file, to_line; /* 0: not inlined */
};

/* A file of the source, by its number in the module. */
struct source {
	struct source *next;
	uint32_t number;
	char name[]; /* without folders */
};

/* An argument or a result of a call, on the caller's side. */
struct argument {
	struct operand operand; /* or, where it has none: */
	uint32_t offset;	/* into the caller's parameter memory */
	uint32_t size;
};

/* Functions that the driver provides. */
enum builtin {
	BUILTIN_NONE,
	BUILTIN_VPRINTF,
	BUILTIN_ASSERTFAIL,
};

struct call {
	struct call *next;
	struct ptx_function *callee; /* NULL: by the address in source[0] */
	size_t n_arguments;
	size_t n_results;
	struct argument parts[]; /* results, then arguments */
};

/* A parameter or result on the function's side: memory, or a register (-1: none). */
struct formal {
	uint32_t offset;
	uint32_t size;
	int32_t reg;
};

enum relocation {
	RELOCATE_NOT,
	RELOCATE_IMAGE,	 /* the value is an offset into the module's variables */
	RELOCATE_SHARED, /* an offset into the kernel's own static shared memory */
};

struct constant {
	uint64_t value;
	enum relocation relocation;
};

struct ptx_function {
	struct ptx_kernel kernel; /* name and attributes */
	struct ptx_module *module;
	struct ptx_function *next;
	bool is_kernel;
	bool is_defined;
	enum builtin builtin;
	uint32_t code; /* its number: its address is CODE_BASE + CODE_STEP * code */
	unsigned int line;

	struct op *ops;
	size_t n_ops;
	uint32_t *targets; /* of all brx */
	size_t n_targets;
	struct call *calls;
	struct place *places;
	uint32_t n_places;

	uint32_t n_registers;
	struct constant *constants;
	size_t n_constants;
	uint64_t (*values)[LANES]; /* the constants once placed, one for each lane */

	struct formal *formals; /* results, then parameters; of device functions */
	size_t n_results;
	size_t n_formals;
	uint32_t param_size;  /* of the frame's parameter memory */
	uint32_t local_size;  /* of the frame's local memory */
	uint32_t shared_size; /* of the body's own static shared memory */
	bool shares;	      /* may use the module's shared memory too */
};

struct variable {
	struct variable *next;
	char *name;
	uint64_t offset; /* into the image */
	uint64_t size;
	bool is_constant;
};

/* An address in a variable's initial value. */
struct patch {
	uint64_t offset; /* where */
	uint32_t size;
	uint64_t value;
	bool to_image;	     /* value is an offset into the image */
	unsigned char shift; /* of a masked byte */
};

struct ptx_module {
	struct ptx_target target;
	struct ptx_function *functions;
	struct ptx_function **tail;
	size_t n_functions;
	struct ptx_function **by_code;
	struct variable *variables;
	struct source *sources;
	unsigned char *image; /* mapped */
	uint64_t image_size;
	uint64_t image_capacity;
	uint64_t address; /* where it was placed */
	struct patch *patches;
	size_t n_patches;
	uint32_t shared_size; /* of shared variables outside kernels */
	uint32_t const_size;
};

/*
 * Generic addresses of memory outside of the process: beyond all addresses that the
 * process can have. Functions have addresses too, which only calls understand.
 */
#define WINDOW_SHARED  ((uint64_t)1 << 48)
#define WINDOW_LOCAL   ((uint64_t)1 << 49)
#define WINDOW_PARAM   ((uint64_t)1 << 50)
#define WINDOW_CLUSTER ((uint64_t)1 << 52)
#define WINDOW_SIZE    ((uint64_t)1 << 32)
#define CODE_BASE      ((uint64_t)1 << 51)
#define CODE_STEP      16

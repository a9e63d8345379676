/* SPDX-License-Identifier: MIT */
/*
 * The instructions: rows in tables, one table a family, in the family's file.
 *
 * Where a name has several rows, the row whose words and types fit is meant. Operands
 * are said by a letter each, in order:
 *
 *	d   destination, a register of the type      D   the same, or a wider one
 *	x   destination of 32 bits                   w   destination of twice the bits
 *	p   destination predicate, maybe p|q         P   of 32 bits, maybe d|p
 *	v   destination, or a vector of them         V   source, or a vector of them
 *	a   source of the type                       A   the same, or a wider register
 *	f   source of the second type                F   the same, or a wider register
 *	u   source of 32 bits                        W   source of twice the bits
 *	n   source that may be of any width          q   source predicate
 *	m   memory, [register or name + offset]
 *	?   what follows may be left out
 */
#pragma once

#include "module.h"

#define TYPE_BIT(type) (1U << (type))

struct parser;

struct instruction {
	const char *name;
	const char *operands;
	uint32_t groups;	     /* the words that may follow */
	uint32_t required;	     /* groups that must be there */
	op_handler *const *handlers; /* by type; or */
	op_handler *handler;	     /* for any of */
	uint32_t types;		     /* (0: none is written) */
	uint32_t from;		     /* second types, where it has them */
	enum mode mode;		     /* the only one that fits; 0: any */

	/* Reads the operands where letters don't say enough; or NULL. */
	bool (*parse)(struct parser *parser, struct op *op);
};

struct family {
	const struct instruction *rows;
	size_t n;
};

extern const struct family family_arithmetic, family_bits, family_carry, family_float,
	family_half, family_approx, family_cluster, family_compare, family_convert,
	family_move, family_memory, family_atomic, family_control, family_collective;

/* All of them. */
extern const struct family *const families[];
extern const size_t n_families;

#define FAMILY(name) \
	const struct family family_##name = { instructions, ARRAY_SIZE(instructions) }

/* SPDX-License-Identifier: MIT */
/*
 * A record as names and values: what every output prints.
 */
#pragma once

#include "call.h"

struct functions;

struct field {
	const char *name; /* CUDA's, for what the caller gave */
	bool is_number; /* else a word or a text, to be quoted where that is the custom */
	char value[TEXT_SIZE + 8];
};

#define FIELDS_MAX (PARAMS_MAX + 6)

/*
 * The arguments of a call in their order, then what it did: `bytes` (of a copy whose
 * extent is in a struct), `kind`, `freed`, `n_freed` and `held`. Results that a failed
 * call did not give are left out.
 *
 * Returns: how many.
 */
size_t decode_fields(const struct record *record, const struct functions *functions,
		     struct field fields[FIELDS_MAX]);

/* Numbers of CUDA's header by their names: "device:0", "set_read_mostly" ... Each writes
 * a number where there is no name. */
void decode_location(uint64_t value, char *ret_text, size_t size);
void decode_advice(uint64_t value, char *ret_text, size_t size);

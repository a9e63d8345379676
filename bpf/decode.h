/* SPDX-License-Identifier: MIT */
/*
 * A record as names and values, as every mode prints them.
 */
#pragma once

#include "call.h"

struct functions;

struct field {
	const char *name; /* CUDA's names, for arguments */
	bool is_number;	  /* else a word or a text, to be quoted in JSON */
	char value[TEXT_SIZE + 8];
};

#define FIELDS_MAX (PARAMS_MAX + 8)

/*
 * The arguments of a call in their order, then the effect: `bytes` (of a copy whose
 * extent is in a struct), `kind`, `freed`, `imported`, `n_freed` and `held`. A failed
 * call has no results.
 *
 * Returns: the number of fields.
 */
size_t decode_fields(const struct record *record, const struct functions *functions,
		     struct field fields[FIELDS_MAX]);

/* Numbers of CUDA's header by their names: "device:0", "set_read_mostly" ... Each writes
 * a number where there is no name. */
void decode_location(uint64_t value, char *ret_text, size_t size);
void decode_advice(uint64_t value, char *ret_text, size_t size);

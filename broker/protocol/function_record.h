/* SPDX-License-Identifier: MIT */
/*
 * A function of a module as the worker tells it: a record in the staging area.
 *
 * The worker writes records one behind the other; the broker copies them out of the
 * shared memory first and believes nothing of what it reads then.
 */
#pragma once

#include "base/def.h"

#define RECORD_NAME_MAX	  0x10000 /* bytes of a function's name, NUL included */
#define RECORD_PARAMS_MAX 0x8000  /* a kernel's parameters are 32764 bytes at most */

struct record_param {
	uint32_t offset, size;
};

/* What a record says. name and params are the writer's, or point into what was read. */
struct record {
	const char *name;
	bool has_params; /* the driver could tell them */
	uint32_t n_params;
	const struct record_param *params;
};

/* Bytes that it takes, a multiple of 8. */
size_t record_size(const struct record *record);

/* Writes it. Returns: its size; -ENOSPC where that is more than size; -ENAMETOOLONG. */
long record_write(const struct record *record, void *bytes, size_t size);

/*
 * Reads the record that stands at bytes, which are 8-byte aligned and nobody else's.
 * A name is a string that is not empty, parameters stand behind one another and end
 * within RECORD_PARAMS_MAX.
 *
 * Returns: its size; -EBADMSG where there is none.
 */
long record_read(struct record *ret_record, const void *bytes, size_t size);

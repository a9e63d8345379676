/* SPDX-License-Identifier: MIT */
/*
 * A record: a function of a module, described by the worker in the staging area.
 *
 * The worker writes records one behind the other. The broker first copies them out of the
 * shared memory, then checks every value.
 */
#pragma once

#include "base/def.h"

#define RECORD_NAME_MAX	  0x10000 /* bytes of a function's name, with NUL */
#define RECORD_PARAMS_MAX 0x8000  /* parameters of a kernel have at most 32764 bytes */

struct record_param {
	uint32_t offset, size;
};

/*
 * Contents of a record. name and params belong to the writer, or point into the bytes
 * read.
 */
struct record {
	const char *name;
	bool has_params; /* the driver knows the parameters */
	uint32_t n_params;
	const struct record_param *params;
};

/* Size of the written record in bytes, a multiple of 8. */
size_t record_size(const struct record *record);

/* Writes a record. Returns: its size; -ENOSPC when larger than size; -ENAMETOOLONG. */
long record_write(const struct record *record, void *bytes, size_t size);

/*
 * Reads and checks a record. The bytes must be 8-byte aligned and private. A name must
 * not be empty. Parameters must not overlap and must end within RECORD_PARAMS_MAX.
 *
 * Returns: the size of the record; -EBADMSG when malformed.
 */
long record_read(struct record *ret_record, const void *bytes, size_t size);

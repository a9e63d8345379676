/* SPDX-License-Identifier: MIT */
/* A record with everything known: the fields, the broker's name, the stack. */
#pragma once

#include "decode.h"
#include "mount.h"
#include "output.h"
#include "symbol.h"

/*
 * The broker's name of the allocation at an address of a process: of a worker's memory,
 * or of memory mapped through a lease. Names of workers read before `since` are read
 * anew.
 *
 * Returns: NULL for other memory. Good until the next call.
 */
const char *event_name(const struct tracer *tracer, const struct mount_user *user,
		       uint64_t address, uint64_t since);

/* decode_fields(), and `name` for memory of a broker's allocation. */
size_t event_fields(const struct tracer *tracer, const struct record *record,
		    struct field fields[FIELDS_MAX]);

/* Where the call came from, or NULL. */
const struct stack *event_stack(const struct tracer *tracer, const struct record *record);

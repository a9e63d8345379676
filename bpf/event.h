/* SPDX-License-Identifier: MIT */
/* A record with all that is known of it: its fields, the broker's name, its stack. */
#pragma once

#include "decode.h"
#include "output.h"
#include "symbol.h"

/* decode_fields(), and `name` where the memory is one of the broker's allocations. */
size_t event_fields(const struct tracer *tracer, const struct record *record,
		    struct field fields[FIELDS_MAX]);

/* Where the call came from, or NULL. */
const struct stack *event_stack(const struct tracer *tracer, const struct record *record);

/* SPDX-License-Identifier: MIT */
/* A record with everything known: the fields, the broker's name, the stack. */
#pragma once

#include "decode.h"
#include "output.h"
#include "symbol.h"

/* decode_fields(), and `name` for memory of a broker's allocation. */
size_t event_fields(const struct tracer *tracer, const struct record *record,
		    struct field fields[FIELDS_MAX]);

/* Where the call came from, or NULL. */
const struct stack *event_stack(const struct tracer *tracer, const struct record *record);

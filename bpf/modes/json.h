/* SPDX-License-Identifier: MIT */
/* Pieces of JSON shared by modes. */
#pragma once

#include "event.h"

#include <stdio.h>

/* A string in quotes, up to a NUL or `max` bytes. */
void json_string(FILE *file, const char *string, size_t max);

/* `,"NAME":VALUE` for each field of a record. */
void json_fields(FILE *file, const struct tracer *tracer, const struct record *record);

/* A stack as an array of strings. */
void json_stack(FILE *file, const struct stack *stack);

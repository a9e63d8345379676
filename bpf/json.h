/* SPDX-License-Identifier: MIT */
/* Pieces of JSON that more than one output writes. */
#pragma once

#include "decode.h"

#include <stdio.h>

/* A string in quotes, up to its NUL or `max` bytes. */
void json_string(FILE *file, const char *string, size_t max);

/* `,"NAME":VALUE` for each field of a record. */
void json_fields(FILE *file, const struct record *record,
		 const struct functions *functions);

/* SPDX-License-Identifier: MIT */
/* Names of allocations, with the folders that they are in: `a/b/x`. */
#pragma once

#include <stdbool.h>

#include <gpumem/gpumem.h>

#define NAME_MAX_LENGTH 64 /* of each part */
#define NAME_CHARACTERS                                        \
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" \
	"0123456789_.-"

/* Whether an allocation can have the name. */
bool name_is_valid(const char *name);

/*
 * A number for names of what the program makes for a while: one in 4 thousand million, so
 * that no other user can have taken the name. The same at each call.
 */
unsigned int name_number(void);

/* The name without its folders. */
const char *name_own(const char *name);

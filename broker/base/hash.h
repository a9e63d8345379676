/* SPDX-License-Identifier: MIT */
/*
 * uthash with a keyed hash. Keys come from users: names, tags, cgroups. Of a hash that is
 * known a user could make thousands of names with one value, and each look at their table
 * would be a walk along all of them. So the key is drawn anew by each process, and the
 * tables of the broker, the view and the tracer include this header instead of
 * <uthash.h>.
 */
#pragma once

#include <stddef.h>

#define HASH_FUNCTION(key, length, value) ((value) = hash_of(key, length))

#include <uthash.h>

/* Returns: another value in each process. */
unsigned int hash_of(const void *key, size_t length);

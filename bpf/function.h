/* SPDX-License-Identifier: MIT */
/*
 * The names of functions, by process and handle, as answered by cuModuleGetFunction and
 * the like. Handles from before the start have no names.
 */
#pragma once

#include "kernel/record.h"

struct functions;
struct traced_users;

/* The tracer frees the users, after the functions. Returns: NULL without memory. */
struct functions *functions_new(struct traced_users *users);
struct functions *functions_free(struct functions *functions);

/* Learns from a record. */
void functions_learn(struct functions *functions, const struct record *record);

/* Returns: NULL for a handle without a name. Good until the process is forgotten. */
const char *function_name(const struct functions *functions, __u64 process, __u64 handle);

/* Forgets an ended process. */
void functions_forget(struct functions *functions, __u64 process);

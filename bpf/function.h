/* SPDX-License-Identifier: MIT */
/*
 * The names of functions, by process and handle: what cuModuleGetFunction and its like
 * were seen to answer. Handles from before the start have none.
 */
#pragma once

#include "kernel/record.h"

struct functions;

/* Returns: NULL when there is no memory. */
struct functions *functions_new(void);
struct functions *functions_free(struct functions *functions);

/* Learns what a record tells. */
void functions_learn(struct functions *functions, const struct record *record);

/* Returns: NULL for a handle without one. Good until the process is forgotten. */
const char *function_name(const struct functions *functions, __u64 process, __u64 handle);

/* Forgets a process that has ended. */
void functions_forget(struct functions *functions, __u64 process);

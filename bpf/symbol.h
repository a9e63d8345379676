/* SPDX-License-Identifier: MIT */
/*
 * Stacks with names. A stack is looked up when the record comes, while the process's
 * mappings can still be read, and kept until the process has ended. Names come from child
 * processes, which are waited for two seconds at most (symboliser.h).
 */
#pragma once

#include "kernel/record.h"

#include <stddef.h>
#include <sys/types.h>

struct symbols;
struct traced_users;

struct stack {
	char **frames; /* the caller of the driver first */
	size_t n;
};

/* Of the map of stacks. The tracer frees the users, after the symbols. Returns: NULL
 * without memory. */
struct symbols *symbols_new(int stacks_fd, struct traced_users *users);
struct symbols *symbols_free(struct symbols *symbols);

/*
 * Returns: the stack of a key in a process of a user, or NULL. Good until
 * symbols_close().
 */
const struct stack *symbols_stack(struct symbols *symbols, __u64 process, __u32 pid,
				  uid_t uid, __s32 key);

/* Forgets an ended process and the process's stacks. */
void symbols_close(struct symbols *symbols, __u64 process);

/* SPDX-License-Identifier: MIT */
/*
 * Work that another user's process or file may hold up: a child process does the work.
 * The tracer waits for the answers until a deadline, and then goes on without them.
 */
#pragma once

#include "base/def.h"

#include <sys/types.h>

/* The longest wait for an answer. Reading the mappings of a process takes some tens of
 * milliseconds at most, also on a busy machine. */
#define APART_WAIT_NS UINT64_C(1500000000)

/* All zero: there is none. */
struct apart {
	pid_t pid;
	int fd;
};

/* Does the work, in the child, and answers by apart_answer(). */
typedef void apart_work(void *context);

/* Starts the work. The child has a copy of this process's memory, and none of its
 * descriptors. Returns: 0; -errno. */
int apart_start(struct apart *apart, apart_work *work, void *context);

/* In the child: sends a packet, with a descriptor unless it is negative. Ends the child
 * when the tracer listens no more. */
void apart_answer(const void *packet, size_t size, int fd);

/* In the child: waits for a packet of apart_ask(). Returns: its size, `size` at most; 0
 * after the last one. */
size_t apart_listen(void *packet, size_t size, int *ret_fd);

/* Sends a packet to the child. Returns: 0; -errno. */
int apart_ask(const struct apart *apart, const void *packet, size_t size, int fd);

/*
 * Takes a packet, and waits for it until `deadline` (CLOCK_MONOTONIC, in nanoseconds) at
 * most. ret_fd gets the descriptor that came along, or -1.
 *
 * Returns: its size, `size` at most; 0 after the last one; -ETIMEDOUT.
 */
ssize_t apart_take(const struct apart *apart, void *packet, size_t size, int *ret_fd,
		   uint64_t deadline);

/* Kills the child, if there is one. */
void apart_end(struct apart *apart);

/* Kills a child process, and waits a little for its end. Returns: whether it has ended.
 */
bool apart_kill(pid_t pid);

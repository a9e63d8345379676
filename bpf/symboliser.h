/* SPDX-License-Identifier: MIT */
/*
 * The tracer's end of a symboliser: a child process that reads the files of a single
 * traced process, and answers with the names of frames. It has the rights of the traced
 * process's user and no others, or of nobody for a process of root. Its answers are not
 * trusted.
 */
#pragma once

#include "base/def.h"
#include "symboliser_child.h"

#include <sys/types.h>

struct known_module;

/* All zero: there is none. */
struct symboliser {
	bool is_open;
	pid_t pid;  /* of the child, or 0: not started. Not open: the child is ending */
	int fd;	    /* the socket ... */
	int end;    /* ... and the child's end of it, until the child has started */
	int folder; /* /proc/PID of the traced process, whatever process has the pid now
		     */
	uid_t uid;  /* of the traced process, as `gid` */
	gid_t gid;
	struct known_module *modules; /* as the child numbers them */
	size_t n_modules;
};

/* Opens one for a process. The child starts with the first question. Returns: 0; -errno.
 */
int symboliser_open(struct symboliser *symboliser, pid_t pid);

/*
 * Tells the symboliser of the file that the process has mapped at an address, unless it
 * knows. Waits until `deadline` (CLOCK_MONOTONIC, in nanoseconds) at most.
 *
 * Returns: the number of the file; MODULE_NONE.
 */
uint64_t symboliser_module(struct symboliser *symboliser, uint64_t address,
			   uint64_t deadline);

/*
 * Asks for texts, and waits until `deadline` at most. The caller frees the texts; those
 * not answered stay NULL.
 *
 * Returns: 0; -ETIMEDOUT; -EPIPE if the symboliser has ended.
 */
int symboliser_ask(struct symboliser *symboliser, const struct ask *ask, char **ret_texts,
		   uint64_t deadline);

/* Kills the symboliser. */
void symboliser_end(struct symboliser *symboliser);

/* Whether there is none, and the child of the last one has ended. */
bool symboliser_is_free(struct symboliser *symboliser);

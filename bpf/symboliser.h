/* SPDX-License-Identifier: MIT */
/*
 * The tracer's end of a symboliser: a child process that reads the files of a single
 * traced process, and answers with the names of frames. It has the rights of the traced
 * process's user and no others, or of nobody for a process of root. Its answers are not
 * trusted.
 */
#pragma once

#include "apart.h"
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
 * In a child that was asked (apart.h): answers with the file that a process has mapped at
 * an address. `pid` is the name of the process's folder in /proc.
 */
void symboliser_look(const char *pid, uint64_t address);

/*
 * Takes the answer of symboliser_look(), until `deadline` (CLOCK_MONOTONIC, in
 * nanoseconds) at most, and tells the symboliser of the file, unless it knows.
 * ret_module gets the number of the file, or MODULE_NONE.
 *
 * Returns: 0; -ETIMEDOUT or -EPIPE without an answer.
 */
int symboliser_module(struct symboliser *symboliser, const struct apart *looker,
		      uint64_t deadline, uint64_t *ret_module);

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

/* SPDX-License-Identifier: MIT */
/*
 * The command behind `--`: a process that is there before the probes and runs its program
 * after them.
 */
#pragma once

#include "base/text.h"

#include <sys/types.h>

struct command {
	pid_t pid;
	int go; /* a byte into it lets the program start */
};

/*
 * Forks a process that waits to run argv: as the user behind sudo, with his groups and
 * the environment that he gave to sudo, where the tool runs under sudo. `prepare` is
 * called in it first, with all privileges; if it returns an error the process ends.
 *
 * Returns: 0; -errno, with a sentence in `why`.
 */
int command_start(struct command *command, char **argv, int (*prepare)(void *),
		  void *context, struct text *why);

/* Lets it run its program. */
void command_go(struct command *command);

/* The LD_LIBRARY_PATH that it will run with, or NULL. The caller frees it. */
char *command_library_path(void);

/* The user behind sudo. Returns: false where the tool does not run under sudo. */
bool command_user(uid_t *ret_uid);

/* Its exit status as a shell gives it, from waitpid()'s. */
int command_status(int status);

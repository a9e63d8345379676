/* SPDX-License-Identifier: MIT */
/*
 * The command behind `--`: a process that exists before the probes and runs the program
 * after them.
 */
#pragma once

#include "base/text.h"

#include <sys/types.h>

struct command {
	pid_t pid;
	int go; /* a byte written here lets the program start */
};

/* Raises the limit of descriptors to the most allowed, for the tool: each library keeps a
 * descriptor. The command will have the limit of before. */
void command_raise_descriptors(void);

/*
 * Forks a process that waits to run argv. Under sudo, argv runs as the user behind sudo,
 * with this user's groups and environment. The new process first calls `prepare` with all
 * privileges, and ends if `prepare` fails.
 *
 * Returns: 0; -errno, with a sentence in `why`.
 */
int command_start(struct command *command, char **argv, int (*prepare)(void *),
		  void *context, struct text *why);

/* Lets the process run the program. */
void command_go(struct command *command);

/* The LD_LIBRARY_PATH of the command, or NULL. The caller frees the string. */
char *command_library_path(void);

/* The user behind sudo. Returns: false where the tool does not run under sudo. */
bool command_user(uid_t *ret_uid);

/* Turns a status of waitpid() into the exit status that a shell would give. */
int command_status(int status);

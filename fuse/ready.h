/* SPDX-License-Identifier: MIT */
/* The starter of a program in the background, and the service manager: both wait. */
#pragma once

/*
 * Forks, and the parent waits for ready_tell() or the child's end. Returns: in the child
 * -1; in the parent the exit status.
 */
int ready_fork(void);

/* The starter returns, and nobody listens on the terminal any more. */
void ready_tell(void);

/* From here on nobody listens on the terminal. */
void ready_leave_terminal(void);

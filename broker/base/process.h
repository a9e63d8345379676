/* SPDX-License-Identifier: MIT */
/* Facts about a process from /proc. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#define PROCESS_NAME_MAX 17 /* TASK_COMM_LEN and a NUL */

/* The process of a thread; the thread's id itself when /proc does not tell. */
pid_t process_of_thread(pid_t thread);

/* The name of a process as in ps(1); `?` when the process is gone. */
void process_name(pid_t pid, char name[PROCESS_NAME_MAX]);

/* Whether all threads of the process of a pidfd have ended. */
bool process_has_ended(int pidfd);

/* Whether the process is exiting or gone. */
bool process_is_ending(pid_t pid);

/*
 * When the thread began, in ticks since the machine's start. A number that has come again
 * has another. Returns: 0 when the thread is gone or can't be seen.
 */
unsigned long long process_start(pid_t thread);

/* Whether the thread has the root and the mounts of this process. Touches no file. */
bool process_sees_our_files(pid_t thread);

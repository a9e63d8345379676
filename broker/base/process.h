/* SPDX-License-Identifier: MIT */
/* What /proc tells of a process. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#define PROCESS_NAME_MAX 17 /* TASK_COMM_LEN and a NUL */

/* The process of a thread; the id itself when that can't be told. */
pid_t process_of_thread(pid_t thread);

/* Its name as ps(1) shows it, `?` when it has gone. */
void process_name(pid_t pid, char name[PROCESS_NAME_MAX]);

/* Whether it is on its way out, or has gone. */
bool process_is_ending(pid_t pid);

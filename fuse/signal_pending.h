/* SPDX-License-Identifier: MIT */
/* Does a signal want the system call of a thread ended? */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* The text of /proc/TID/status: does a pending signal end the wait, or is the thread
 * ending? */
bool signal_ends_wait(const char *status);

/* The same for a thread; true for a thread that has ended or can't be seen. */
bool signal_pending(pid_t tid);

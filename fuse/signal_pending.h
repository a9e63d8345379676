/* SPDX-License-Identifier: MIT */
/* Does a signal want the system call of a thread ended? */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* What /proc/TID/status says: is one pending that ends a wait, or is the thread ending?
 */
bool signal_ends_wait(const char *status);

/* The same for a thread. One that has gone, or can't be seen, wants its wait ended. */
bool signal_pending(pid_t tid);

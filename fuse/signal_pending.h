/* SPDX-License-Identifier: MIT */
/* Does a signal want the system call of a thread ended? */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* The text of /proc/TID/status, for the caller to free. NULL: the thread has ended or
 * can't be seen, or there is no memory. */
char *signal_status(pid_t tid);

/* Says such a text that a pending signal ends the wait, or that the thread is ending? */
bool signal_ends_wait(const char *status);

/* Is such a text a thread of the kernel's own, which gets no signals? */
bool status_is_of_kernel(const char *status);

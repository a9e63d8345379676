/* SPDX-License-Identifier: MIT */
/*
 * What a process of root does in the accounts of other users: counts, moves managed pages
 * off a device, clears away what ended processes have left.
 *
 * A user can hold up each of these steps for any time. A call that writes to a file, or
 * lists a folder, has the kernel's lock of the file or folder until the call ends. If the
 * buffer of the call is a page of FUSE or userfaultfd(2), the user says when. So a thread
 * of its own does these steps, and calls of the driver wait a moment for the thread.
 * Calls go on without a thread that is held up: then the sums of other users are
 * believed, and managed pages of other users stay.
 *
 * The thread has the lock of one account at a time. A user who holds up the thread thus
 * holds up nobody else's account, and threads of other processes of root pass over this
 * one.
 *
 * The kernel ends no process before its threads: a process of root that is killed while
 * its thread is held up is there for so long.
 */
#pragma once

#include "base/def.h"

#include <sys/types.h>

/* Starts the thread of this process, where there is none. Returns: 0, or -errno. */
int others_start(void);

/* Has the remains in all machines cleared. The thread may still do so on return. */
void others_clear(void);

/*
 * Has other users' accounts counted. Where more than the device's memory would be in use
 * with the bytes claimed by the account `own` (what that has, and what it asks for), has
 * the oldest managed pages moved off. The pages of `own` stay, and are left to the
 * caller: those older than the youngest that was moved.
 *
 * machine_fd stays open to the end of the process.
 */
void others_correct(int machine_fd, const char *own, int device, uint64_t claimed);

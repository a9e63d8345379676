/* SPDX-License-Identifier: MIT */
/*
 * The change of names that the sender of a request is about to make. Linux asks for a
 * name before link(2), unlink(2) and rename(2), and does not say for which call. The
 * sender's system call is shown in /proc.
 */
#pragma once

#include <sys/types.h>

enum name_change {
	NAME_CHANGE_NONE,
	NAME_CHANGE_LINK,
	NAME_CHANGE_REMOVE, /* of a name, by unlink(2), rmdir(2) or rename(2) */
};

/*
 * Looks at the call of a thread that waits for the answer to a request. Returns: enum
 * name_change, NAME_CHANGE_NONE too if this process may not look; -ESTALE: the thread has
 * not gone to sleep for a while. Linux asks once more after this error.
 */
int system_call_change(pid_t tid);

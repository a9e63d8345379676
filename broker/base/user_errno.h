/* SPDX-License-Identifier: MIT */
/*
 * Errors that calls of users may end with.
 *
 * A file that a user names may fail with any number. ENOSYS in an answer of the view
 * would tell the kernel that the mount does not have the call, and the kernel would never
 * ask again, for any user. Numbers from 512 on are the kernel's own: an answer with one
 * is refused, and the call would wait for ever.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>

#define USER_ERRNO_MAX 511

static inline bool user_errno_is_good(unsigned int error)
{
	return error <= USER_ERRNO_MAX && error != ENOSYS;
}

/* error is 0 or positive. */
static inline int user_errno(int error)
{
	if (user_errno_is_good((unsigned int)error))
		return error;
	return error == ENOSYS ? EOPNOTSUPP : EIO;
}

/* SPDX-License-Identifier: MIT */
#include "crash_request.h"

#include "base/crash.h"
#include "base/def.h"
#include "repeated.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>

/* Their numbers; 0: none. Atomic. */
static uint64_t held[256];

static bool replace(uint64_t *place, uint64_t old, uint64_t new)
{
	return __atomic_compare_exchange_n(place, &old, new, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

static void begun(uint64_t unique)
{
	for (size_t i = 0; i < ARRAY_SIZE(held); i++) {
		if (replace(&held[i], 0, unique)) {
			crash_hold();
			return;
		}
	}
}

/*
 * No thread sleeps in the read: the kernel could hand a request to the thread while
 * another is about to die, which then would not know of the request.
 */
ssize_t crash_request_read(int fd, void *bytes, size_t size)
{
	const struct fuse_in_header *header = bytes;
	struct pollfd requests = { .fd = fd, .events = POLLIN };
	ssize_t length;
	int error;

	if (!crash_is_planned())
		return read(fd, bytes, size);
	if (fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0 || poll(&requests, 1, -1) < 0)
		return -1;
	crash_hold();
	length = read(fd, bytes, size);
	error = errno;
	if (length >= (ssize_t)sizeof(*header) && !request_may_repeat(header->opcode))
		begun(header->unique);
	crash_let_go();
	errno = error;
	return length;
}

void crash_request_answered(uint64_t unique)
{
	for (size_t i = 0; i < ARRAY_SIZE(held) && unique; i++) {
		if (replace(&held[i], unique, 0))
			crash_let_go();
	}
}

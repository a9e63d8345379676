/* SPDX-License-Identifier: MIT */
/*
 * The kernel tells a FUSE server that a request was interrupted, not by what; and it
 * tells once, though the signal that matters may come later. So the thread's own status
 * is read: a signal that is pending for it or its group and not blocked, ends a wait,
 * unless nothing comes of it. Those the kernel ignores by default (CHLD, URG, WINCH)
 * never end one, with a handler or without: shells and the Go runtime have handlers for
 * them and expect system calls to go on. CONT is of that kind. The stop signals do end
 * it, or the job could not be stopped.
 *
 * The kernel interrupts no request of a thread that is ending, and takes the signal that
 * ended it for done: such a thread is known by its descriptors, which it gives up first.
 */
#include "signal_pending.h"

#include "base/def.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define BIT(signal) (1ull << ((signal)-1))

static const uint64_t never = BIT(SIGCHLD) | BIT(SIGURG) | BIT(SIGWINCH) | BIT(SIGCONT);
static const uint64_t always = BIT(SIGKILL) | BIT(SIGSTOP);

/* The mask behind a key, 0 where there is none. */
static uint64_t status_mask(const char *status, const char *key)
{
	const char *at = strstr(status, key);

	return at ? strtoull(at + strlen(key), NULL, 16) : 0;
}

/* A thread that has given up its descriptors is about to end. */
static bool has_no_files(const char *status)
{
	return strstr(status, "\nFDSize:\t0\n");
}

bool signal_ends_wait(const char *status)
{
	uint64_t pending =
		status_mask(status, "\nSigPnd:\t") | status_mask(status, "\nShdPnd:\t");
	uint64_t idle = status_mask(status, "\nSigBlk:\t") |
			status_mask(status, "\nSigIgn:\t") | never;

	return has_no_files(status) || pending & (~idle | always);
}

bool signal_pending(pid_t tid)
{
	_cleanup_close_ int fd = -1;
	char path[40], status[4096];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	length = read(fd, status, sizeof(status) - 1);
	if (length <= 0)
		return true;
	status[length] = '\0';
	return signal_ends_wait(status);
}

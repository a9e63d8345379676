/* SPDX-License-Identifier: MIT */
/*
 * The kernel tells a FUSE server that a request was interrupted, but not by which signal;
 * and only once, though a deadly signal may follow an ignored one. So the status of the
 * thread is read: any pending signal of the thread or its process ends a wait, unless the
 * thread blocks the signal. CHLD, URG, WINCH and CONT, ignored by default, never end a
 * wait, with a handler or without: shells and the Go runtime have handlers for them and
 * expect system calls to go on. The stop signals do end a wait, or the job could not be
 * stopped.
 *
 * The kernel interrupts no request of a thread that is ending, and drops the signal that
 * ended the thread. Such a thread has no descriptors any more, which /proc shows.
 */
#include "signal_pending.h"

#include "base/def.h"
#include "base/proc.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
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

/* All such threads are children of the second process, and none has memory. */
bool status_is_of_kernel(const char *status)
{
	return strstr(status, "\nPPid:\t2\n") && !strstr(status, "\nVmSize:");
}

/* The file is as long as the thread has groups: thousands make many KiB. */
char *signal_status(pid_t tid)
{
	_cleanup_free_ char *status = NULL;
	size_t size = 0;
	ssize_t length;
	char path[40];
	FILE *file;

	snprintf(path, sizeof(path), "%d/status", (int)tid);
	file = proc_fopen(path);
	if (!file)
		return NULL;
	length = getdelim(&status, &size, '\0', file);
	fclose(file);
	return length > 0 ? take_ptr(status) : NULL;
}

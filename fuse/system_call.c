/* SPDX-License-Identifier: MIT */
/*
 * Most calls are told by their number, the first word of /proc/TID/syscall. A thread of
 * io_uring shows the number of whatever call its program was in when it started, and its
 * program counter, the last word, is 0. A call of 32 bits has a number of its own. Where
 * these leave a doubt, the functions of the kernel that the thread is in tell the call.
 * /proc/TID/stack names them, and takes several times as long.
 */
#include "system_call.h"

#include "base/def.h"
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define IN_DOUBT -1
#define TRIES	 20
#define PAUSE_NS 50000

#define X32_CALL 0x40000000L /* in the numbers of programs of the x32 ABI */

/* Returns: the text; NULL: none can be read. */
static const char *read_of(pid_t tid, const char *file, char *buffer, size_t size)
{
	_cleanup_close_ int fd = -1;
	char path[40];
	ssize_t n;

	snprintf(path, sizeof(path), "%d/%s", (int)tid, file);
	fd = proc_open(path, O_RDONLY);
	if (fd < 0)
		return NULL;
	n = read(fd, buffer, size - 1);
	if (n <= 0)
		return NULL;
	buffer[n] = '\0';
	return buffer;
}

static int change_of_number(long number)
{
	switch (number) {
#ifdef SYS_link
	case SYS_link:
#endif
	case SYS_linkat:
		return NAME_CHANGE_LINK;
#ifdef SYS_unlink
	case SYS_unlink:
	case SYS_rmdir:
	case SYS_rename:
#endif
#ifdef SYS_renameat
	case SYS_renameat:
#endif
	case SYS_unlinkat:
	case SYS_renameat2:
		return NAME_CHANGE_REMOVE;
#ifdef __x86_64__
	/* Calls of 32 bits: link, linkat, unlink, rename, rmdir, unlinkat, renameat,
	 * renameat2. Of the calls of 64 bits with these numbers two look names up. */
	case 9:
	case 303:
	case 10:
	case 38:
	case 40:
	case 301:
	case 302:
	case 353:
		return IN_DOUBT;
#endif
	default:
		return NAME_CHANGE_NONE;
	}
}

static int change_of_stack(pid_t tid)
{
	char buffer[4096];
	const char *stack = read_of(tid, "stack", buffer, sizeof(buffer));

	if (!stack)
		return NAME_CHANGE_NONE;
	if (strstr(stack, "linkat") && !strstr(stack, "unlinkat"))
		return NAME_CHANGE_LINK;
	if (strstr(stack, "unlink") || strstr(stack, "rmdir") || strstr(stack, "rename"))
		return NAME_CHANGE_REMOVE;
	return NAME_CHANGE_NONE;
}

/* Linux shows nothing of a thread that has sent its request and does not sleep yet. */
static bool is_running(const char *call)
{
	return !strncmp(call, "running", strlen("running"));
}

static bool is_of_io_uring(const char *call)
{
	const char *counter = strrchr(call, ' ');

	return counter && strtoull(counter, NULL, 16) == 0;
}

int system_call_change(pid_t tid)
{
	char buffer[256], *end;
	const char *call = read_of(tid, "syscall", buffer, sizeof(buffer));
	long number;
	int change;

	for (int i = 0; call && is_running(call) && i < TRIES; i++) {
		nanosleep(&(struct timespec){ 0, PAUSE_NS }, NULL);
		call = read_of(tid, "syscall", buffer, sizeof(buffer));
	}
	if (!call)
		return NAME_CHANGE_NONE;
	if (is_running(call))
		return -ESTALE;
	number = strtol(call, &end, 10);
	if (end == call)
		return NAME_CHANGE_NONE;
	change = is_of_io_uring(call) ? IN_DOUBT : change_of_number(number & ~X32_CALL);
	return change == IN_DOUBT ? change_of_stack(tid) : change;
}

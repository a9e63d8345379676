/* SPDX-License-Identifier: MIT */
/*
 * A pidfd is opened by a pid of this process's pid namespace; the BPF programs compare
 * pids of the same namespace. Unlike a pid, a pidfd can't come to mean another process.
 */
#include "watch.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/pidfd.h>

static bool has_ended(int pidfd)
{
	struct pollfd poll_fd = { .fd = pidfd, .events = POLLIN };

	return poll(&poll_fd, 1, 0) == 1;
}

static int open_one(pid_t pid, struct text *why)
{
	int fd = pidfd_open(pid, 0), error = errno;

	if (fd >= 0 && !has_ended(fd))
		return fd;
	/* the latter two are the kernel's errors for a thread */
	if (fd >= 0 || error == ESRCH || error == EINVAL || error == ENOENT)
		error = ESRCH;
	closep(&fd);
	if (error == ESRCH)
		text_printf(why, "there is no process %d", (int)pid);
	else
		text_printf(why, "process %d: %s", (int)pid, strerror(error));
	return -error;
}

int watch_init(struct watch *watch, const struct options *options, struct text *why)
{
	watch->n = 0;
	for (size_t i = 0; i < options->n_pids; i++) {
		int fd = open_one(options->pids[i], why);

		if (fd < 0)
			return fd;
		watch->fds[watch->n++] = fd;
	}
	return 0;
}

void watch_deinit(struct watch *watch)
{
	while (watch->n)
		closep(&watch->fds[--watch->n]);
}

bool watch_is_over(struct watch *watch)
{
	bool some = watch->n;

	for (size_t i = 0; i < watch->n;) {
		if (!has_ended(watch->fds[i])) {
			i++;
			continue;
		}
		closep(&watch->fds[i]);
		watch->fds[i] = watch->fds[--watch->n];
	}
	return some && !watch->n;
}

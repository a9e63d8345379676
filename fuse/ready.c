/* SPDX-License-Identifier: MIT */
#include "ready.h"

#include "base/def.h"
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

/* The parent waits for a byte of this pipe; -1 in the foreground. */
static int ready_fd = -1;

void ready_leave_terminal(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (chdir("/") < 0 || fd < 0)
		return;
	for (int i = 0; i < 3; i++)
		dup2(fd, i);
	if (fd > 2)
		close(fd);
	log_leave_terminal();
}

void ready_tell(void)
{
	ssize_t written;

	sd_notify(0, "READY=1");
	if (ready_fd < 0)
		return;
	ready_leave_terminal();
	written = write(ready_fd, "", 1);
	(void)written;
	close(ready_fd);
}

/* Copies to stderr. Returns: false at end of file. */
static bool relay(int from)
{
	char bytes[1024];
	ssize_t length = read(from, bytes, sizeof(bytes)), written;

	if (length <= 0)
		return length < 0 && errno == EINTR;
	written = write(STDERR_FILENO, bytes, (size_t)length);
	(void)written;
	return true;
}

/* The parent: relays the stderr of the child until the child is ready or has ended. */
static int watch_child(int ready, int said)
{
	struct pollfd ends[2] = { { .fd = ready, .events = POLLIN },
				  { .fd = said, .events = POLLIN } };
	char byte;
	ssize_t length;

	while (!ends[0].revents) {
		if (poll(ends, 2, -1) < 0)
			continue;
		if (ends[1].revents && !relay(said))
			ends[1].fd = -1;
	}
	fcntl(said, F_SETFL, O_NONBLOCK);
	while (relay(said))
		;
	do {
		length = read(ready, &byte, 1);
	} while (length < 0 && errno == EINTR);
	return length == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/*
 * The child and the workers keep no descriptor of the starter, whose readers would else
 * wait for end of file until the broker ends: the stderr of the child is a pipe.
 */
static void leave_starter(int said)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		close(null);
	}
	dup2(said, STDERR_FILENO);
	close(said);
}

int ready_fork(void)
{
	int ready[2], said[2];
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC) || pipe2(said, O_CLOEXEC))
		return log_complain("pipe: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		return log_complain("fork: %s", strerror(errno));
	if (pid == 0) {
		close(ready[0]);
		close(said[0]);
		ready_fd = ready[1];
		setsid();
		leave_starter(said[1]);
		return -1;
	}
	close(ready[1]);
	close(said[1]);
	return watch_child(ready[0], said[0]);
}

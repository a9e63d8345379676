/* SPDX-License-Identifier: MIT */
/*
 * A process that waits for an answer of a filesystem may be deaf to all signals. So the
 * child must hold nothing of the tracer's, and its end is not waited for: it may never
 * come.
 */
#include "apart.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define END_MS_MAX 500

#define ANSWERS	   0 /* the child's only descriptor */

union control {
	char buffer[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

/* ---- packets ---- */

/* Returns: 0; -errno. */
static int send_packet(int socket, const void *packet, size_t size, int fd, int flags)
{
	union control control = { 0 };
	struct iovec iov = { .iov_base = (void *)packet, .iov_len = size };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		message.msg_control = control.buffer;
		message.msg_controllen = sizeof control.buffer;
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof fd);
		memcpy(CMSG_DATA(&control.align), &fd, sizeof fd);
	}
	return sendmsg(socket, &message, flags | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Returns: the size; 0 when no more comes. */
static size_t take_packet(int socket, void *packet, size_t size, int *ret_fd, int flags)
{
	union control control;
	struct iovec iov = { .iov_base = packet, .iov_len = size };
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buffer,
		.msg_controllen = sizeof control.buffer,
	};

	*ret_fd = -1;
	ssize_t n = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
	if (n <= 0)
		return 0;
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	if (header && header->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fd, CMSG_DATA(header), sizeof *ret_fd);
	return (size_t)n;
}

/* ---- in the child ---- */

_Noreturn static void child(int end, pid_t tracer, apart_work *work, void *context)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != tracer || (end != ANSWERS && dup2(end, ANSWERS) < 0) ||
	    close_range(ANSWERS + 1, ~0u, 0))
		_exit(1);
	work(context);
	_exit(0);
}

void apart_answer(const void *packet, size_t size, int fd)
{
	if (send_packet(ANSWERS, packet, size, fd, 0))
		_exit(1);
}

size_t apart_listen(void *packet, size_t size, int *ret_fd)
{
	return take_packet(ANSWERS, packet, size, ret_fd, 0);
}

/* ---- in the tracer ---- */

int apart_start(struct apart *apart, apart_work *work, void *context)
{
	pid_t tracer = getpid();
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	pid_t pid = fork();
	if (pid == 0)
		child(ends[1], tracer, work, context);
	int error = pid < 0 ? -errno : 0;
	close(ends[1]);
	if (error)
		close(ends[0]);
	else
		*apart = (struct apart){ .pid = pid, .fd = ends[0] };
	return error;
}

int apart_ask(const struct apart *apart, const void *packet, size_t size, int fd)
{
	return send_packet(apart->fd, packet, size, fd, MSG_DONTWAIT);
}

ssize_t apart_take(const struct apart *apart, void *packet, size_t size, int *ret_fd,
		   uint64_t deadline)
{
	struct pollfd poll_fd = { .fd = apart->fd, .events = POLLIN };
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	int left_ms = deadline > now ? (int)((deadline - now) / 1000000) : 0;

	*ret_fd = -1;
	if (poll(&poll_fd, 1, left_ms) != 1)
		return -ETIMEDOUT;
	return (ssize_t)take_packet(apart->fd, packet, size, ret_fd, MSG_DONTWAIT);
}

void apart_end(struct apart *apart)
{
	if (!apart->pid)
		return;
	closep(&apart->fd);
	apart_kill(apart->pid);
	apart->pid = 0;
}

bool apart_kill(pid_t pid)
{
	struct pollfd ended = {
		.fd = (int)syscall(SYS_pidfd_open, pid, 0),
		.events = POLLIN,
	};

	kill(pid, SIGKILL);
	if (ended.fd >= 0)
		poll(&ended, 1, END_MS_MAX);
	closep(&ended.fd);
	return waitpid(pid, NULL, WNOHANG) == pid;
}

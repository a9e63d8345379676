/* SPDX-License-Identifier: MIT */
/*
 * A process that waits for an answer of a filesystem may be deaf to all signals, and
 * never end. So the child holds no descriptor of the tracer's, and the tracer waits for
 * the end of the child a little while only.
 */
#include "apart.h"

#include "packet.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define END_MS_MAX 500
#define ANSWERS	   0 /* the child's only descriptor */

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
	if (packet_send(ANSWERS, packet, size, fd, 0))
		_exit(1);
}

size_t apart_listen(void *packet, size_t size, int *ret_fd)
{
	return packet_take(ANSWERS, packet, size, ret_fd, 0);
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
	return packet_send(apart->fd, packet, size, fd, MSG_DONTWAIT);
}

ssize_t apart_take(const struct apart *apart, void *packet, size_t size, int *ret_fd,
		   uint64_t deadline)
{
	*ret_fd = -1;
	if (packet_wait(apart->fd, POLLIN, deadline))
		return -ETIMEDOUT;
	return (ssize_t)packet_take(apart->fd, packet, size, ret_fd, MSG_DONTWAIT);
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

/* SPDX-License-Identifier: MIT */
#include "process/outside.h"

#include <errno.h>
#include <gpumem/wire.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/def.h"
#include "base/spawner.h"

#define REPLACES UINT64_MAX /* in the place of a user: the process that replaces */

void outside_init(struct outside *outside, struct spawner *spawner)
{
	outside->spawner = spawner;
	pthread_mutex_init(&outside->lock, NULL);
}

/* Under outside->lock. */
static void late_drop(struct outside *outside, unsigned int i)
{
	outside->n_late--;
	memmove(&outside->late[i], &outside->late[i + 1],
		(outside->n_late - i) * sizeof(*outside->late));
}

/*
 * Drops late searches whose process has ended, and whose user may search again. Returns:
 * the number of processes that have not ended. Under outside->lock.
 */
static unsigned int late_reap(struct outside *outside)
{
	const int64_t now_ms = clock_ms();
	unsigned int n = 0;

	for (unsigned int i = outside->n_late; i-- > 0;) {
		struct late *late = &outside->late[i];

		if (late->pid && waitpid(late->pid, NULL, WNOHANG) != 0)
			late->pid = 0;
		n += late->pid != 0;
		if (!late->pid && (late->user == REPLACES ||
				   now_ms - late->since_ms >= OUTSIDE_PAUSE_MS))
			late_drop(outside, i);
	}
	return n;
}

/* A user whose search was late pauses while the searches of many users are late. */
static bool late_has(struct outside *outside, uint64_t user)
{
	bool has, pauses;

	pthread_mutex_lock(&outside->lock);
	has = late_reap(outside) >= OUTSIDE_LATE && user != REPLACES;
	pauses = outside->n_late >= OUTSIDE_MANY;
	for (unsigned int i = 0; i < outside->n_late; i++) {
		if (outside->late[i].user == user)
			has |= outside->late[i].pid || pauses;
	}
	pthread_mutex_unlock(&outside->lock);
	return has;
}

/* Without room the user who has paused for longest may search again. */
static void late_add(struct outside *outside, pid_t pid, uint64_t user)
{
	unsigned int i = 0;

	(void)kill(pid, SIGKILL);
	pthread_mutex_lock(&outside->lock);
	if (outside->n_late == OUTSIDE_NOTED) {
		while (outside->late[i].pid)
			i++;
		late_drop(outside, i);
	}
	outside->late[outside->n_late++] = (struct late){ pid, user, clock_ms() };
	pthread_mutex_unlock(&outside->lock);
}

/* For a process of its own: an option of gpumem-worker with a path. */
struct order {
	const char *program, *option, *path;
	int text; /* -1: none */
	uint64_t user;
	int limit_ms;
};

static int start(struct spawner *spawner, const struct order *order, int socket,
		 pid_t *ret_pid)
{
	const struct spawn spawn = {
		.program = order->program,
		.arguments = (const char *[]){ order->program, order->option, order->path,
					       NULL },
		.environment = (const char *[]){ NULL },
		.fds = { { socket, WIRE_SOCKET_FD }, { order->text, WIRE_STAGING_FD } },
		.n_fds = 2,
	};

	return spawner_start(spawner, &spawn, ret_pid);
}

/* Returns: 0, with a descriptor or -1; -EAGAIN: no answer yet; -errno. */
static int take(int socket, int *ret_fd)
{
	char control[CMSG_SPACE(sizeof(int))];
	int error = EIO, fd = -1;
	struct iovec bytes = { &error, sizeof(error) };
	struct msghdr message = {
		.msg_iov = &bytes,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *header;
	ssize_t length = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (length < 0)
		return -errno;
	header = CMSG_FIRSTHDR(&message);
	if (header)
		memcpy(&fd, CMSG_DATA(header), sizeof(fd));
	*ret_fd = fd;
	return length == sizeof(error) ? -error : -EIO;
}

/* Returns: 0, with a descriptor or -1; -errno. */
static int give_order(struct outside *outside, const struct order *order, int *ret_fd)
{
	_cleanup_close_ int ours = -1, theirs = -1;
	int sockets[2], r;
	pid_t pid;

	if (late_has(outside, order->user))
		return -EBUSY;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return -errno;
	ours = sockets[0];
	theirs = sockets[1];
	r = start(outside->spawner, order, theirs, &pid);
	if (r < 0)
		return r;
	closep(&theirs);
	(void)poll(&(struct pollfd){ .fd = ours, .events = POLLIN }, 1, order->limit_ms);
	r = take(ours, ret_fd);
	if (r == -EAGAIN) {
		late_add(outside, pid, order->user);
		return -ETIMEDOUT;
	}
	(void)waitpid(pid, NULL, 0);
	return r;
}

int outside_open(struct outside *outside, const char *program, uint64_t user,
		 const char *path)
{
	const struct order order = {
		.program = program,
		.option = "--open",
		.path = path,
		.text = -1,
		.user = user,
		.limit_ms = OUTSIDE_MS,
	};
	int fd = -1, r = give_order(outside, &order, &fd);

	if (r == 0 && fd < 0)
		r = -EIO;
	return r < 0 ? r : fd;
}

int outside_replace(struct outside *outside, const char *program, const char *path,
		    int text)
{
	const struct order order = {
		.program = program,
		.option = "--replace",
		.path = path,
		.text = text,
		.user = REPLACES,
		.limit_ms = OUTSIDE_REPLACE_MS,
	};
	int fd = -1;

	return give_order(outside, &order, &fd);
}

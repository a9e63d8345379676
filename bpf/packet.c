/* SPDX-License-Identifier: MIT */
#include "packet.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

union control {
	char buffer[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

int packet_send(int socket, const void *packet, size_t size, int fd, int flags)
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

size_t packet_take(int socket, void *packet, size_t size, int *ret_fd, int flags)
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

int packet_wait(int socket, short events, uint64_t deadline)
{
	struct pollfd poll_fd = { .fd = socket, .events = events };
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	int left_ms = deadline > now ? (int)((deadline - now) / 1000000) : 0;

	return poll(&poll_fd, 1, left_ms) == 1 ? 0 : -ETIMEDOUT;
}

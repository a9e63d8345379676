/* SPDX-License-Identifier: MIT */
#include "worker/outside.h"

#include <errno.h>
#include <fcntl.h>
#include <gpumem/wire.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

_Noreturn void outside_run(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), error = fd < 0 ? errno : 0;
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec bytes = { &error, sizeof(error) };
	struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1 };
	struct cmsghdr *header;

	if (fd >= 0) {
		message.msg_control = control;
		message.msg_controllen = sizeof(control);
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	}
	_exit(sendmsg(WIRE_SOCKET_FD, &message, 0) < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

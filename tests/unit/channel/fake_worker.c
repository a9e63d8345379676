/* SPDX-License-Identifier: MIT */
#include "unit/channel/fake_worker.h"

#include <string.h>
#include <sys/socket.h>

bool fake_worker_take(struct wire_request *request, int *ret_fd)
{
	struct iovec record = { request, sizeof(*request) };
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr message = {
		.msg_iov = &record,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *header;

	if (recvmsg(WIRE_SOCKET_FD, &message, MSG_CMSG_CLOEXEC) != sizeof(*request))
		return false;
	header = CMSG_FIRSTHDR(&message);
	*ret_fd = -1;
	if (header)
		memcpy(ret_fd, CMSG_DATA(header), sizeof(*ret_fd));
	return true;
}

/* SPDX-License-Identifier: MIT */
#include "keep/message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/def.h"
#include "base/descriptor.h"

int keep_send(int socket, uint32_t word, struct keep_key key, int fd)
{
	const struct keep_message message = { word, key };

	return descriptor_send(socket, &message, sizeof(message), fd);
}

int keep_receive(int socket, int flags, struct keep_message *ret_message, int *ret_fd)
{
	char text[KEEP_TEXT_BYTES];
	int r = keep_receive_text(socket, flags, ret_message, ret_fd, text);

	if (r < 0 || !text[0])
		return r;
	closep(ret_fd);
	return -EPROTO;
}

int keep_receive_text(int socket, int flags, struct keep_message *ret_message,
		      int *ret_fd, char ret_text[KEEP_TEXT_BYTES])
{
	char space[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
	struct iovec parts[] = { { ret_message, sizeof(*ret_message) },
				 { ret_text, KEEP_TEXT_BYTES - 1 } };
	struct msghdr header = {
		.msg_iov = parts,
		.msg_iovlen = ARRAY_SIZE(parts),
		.msg_control = space,
		.msg_controllen = sizeof(space),
	};
	const struct cmsghdr *control;
	ssize_t got;

	*ret_fd = -1;
	do {
		got = recvmsg(socket, &header, flags | MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	if (got <= 0)
		return got < 0 ? -errno : -ECONNRESET;
	control = CMSG_FIRSTHDR(&header);
	if (control && control->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fd, CMSG_DATA(control), sizeof(*ret_fd));
	if ((size_t)got >= sizeof(*ret_message)) {
		ret_text[(size_t)got - sizeof(*ret_message)] = 0;
		return 0;
	}
	closep(ret_fd);
	return -EPROTO;
}

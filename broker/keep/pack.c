/* SPDX-License-Identifier: MIT */
#include "keep/pack.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/def.h"

#define QUEUE_BYTES (8 << 20) /* or as much as the kernel allows */

/* Returns: 0; -EAGAIN: the queue is full; -errno. */
static int send_message(int socket, const struct pack_head *head, const void *rest,
			size_t length, const int *fds)
{
	struct iovec parts[2] = { { (void *)head, sizeof(*head) },
				  { (void *)rest, length } };
	char space[CMSG_SPACE(PACK_MAX * sizeof(int))]
		__attribute__((aligned(8))) = { 0 };
	struct msghdr header = { .msg_iov = parts, .msg_iovlen = 2 };
	struct cmsghdr *control;
	ssize_t sent;

	if (fds) {
		header.msg_control = space;
		header.msg_controllen = CMSG_SPACE(head->n * sizeof(int));
		control = CMSG_FIRSTHDR(&header);
		control->cmsg_level = SOL_SOCKET;
		control->cmsg_type = SCM_RIGHTS;
		control->cmsg_len = CMSG_LEN(head->n * sizeof(int));
		memcpy(CMSG_DATA(control), fds, head->n * sizeof(int));
	}
	do {
		sent = sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : 0;
}

/* Where nobody holds the other end, the first message fails (EPIPE). */
static int next_socket(struct pack *pack)
{
	const struct pack_head head = { PACK_VERSION, PACK_BEGIN, 0 };
	const struct keeper_config *config = pack->config;
	int ends[2], r, bytes = QUEUE_BYTES;

	closep(&pack->socket);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	pack->socket = ends[0];
	if (setsockopt(ends[0], SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) < 0)
		(void)setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	r = config->store(config->userdata, ends[1]);
	close(ends[1]);
	if (r == 0)
		r = send_message(pack->socket, &head, config->mountpoint,
				 strlen(config->mountpoint) + 1, NULL);
	return r;
}

static int send_or_begin_another(struct pack *pack, const struct pack_head *head,
				 const void *rest, size_t length, const int *fds)
{
	int r = send_message(pack->socket, head, rest, length, fds);

	if (r == -EAGAIN)
		r = next_socket(pack)
			    ?: send_message(pack->socket, head, rest, length, fds);
	return r;
}

static int send_waiting(struct pack *pack)
{
	const struct pack_head head = { PACK_VERSION, PACK_KEYS, pack->n_waiting };

	if (!pack->n_waiting)
		return 0;
	pack->n += pack->n_waiting;
	pack->n_waiting = 0;
	return send_or_begin_another(pack, &head, pack->keys,
				     head.n * sizeof(pack->keys[0]), pack->fds);
}

int pack_begin(struct pack *pack, const struct keeper_config *config)
{
	*pack = (struct pack){ .config = config, .socket = -1 };
	return config->store ? next_socket(pack) : -EOPNOTSUPP;
}

int pack_add(struct pack *pack, struct keep_key key, int fd)
{
	pack->keys[pack->n_waiting] = key;
	pack->fds[pack->n_waiting++] = fd;
	return pack->n_waiting == PACK_MAX ? send_waiting(pack) : 0;
}

int pack_end(struct pack *pack)
{
	struct pack_head head = { PACK_VERSION, PACK_END, 0 };
	int r = send_waiting(pack);

	head.n = pack->n;
	return r < 0 ? r : send_or_begin_another(pack, &head, NULL, 0, NULL);
}

void pack_deinit(struct pack *pack)
{
	closep(&pack->socket);
}

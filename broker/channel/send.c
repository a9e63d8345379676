/* SPDX-License-Identifier: MIT */
/* Sending: the queue of requests that the socket did not take, and refusals. */
#include "channel/private.h"

#include "base/clock.h"
#include "protocol/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <utlist.h>

#define RETRY_MS 5 /* after a send failed because the kernel had no memory */

void ask_answer(struct ask *ask, const struct wire_reply *reply, bool lost)
{
	closep(&ask->fd);
	ask->done(ask, reply, lost);
}

static void ask_answer_refused(struct ask *ask)
{
	const struct wire_reply reply = {
		.id = ask->request.id,
		.error = ask->refused,
		.call = -1,
	};

	ask_answer(ask, &reply, ask->refused == EIO);
}

void link_refuse_locked(struct link *link, struct ask *ask, int error)
{
	ask->refused = error;
	DL_APPEND(link->refused, ask);
	link_wake(link);
}

int link_send_locked(struct link *link, struct ask *ask)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {
		.header = {
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
			.cmsg_len = CMSG_LEN(sizeof(int)),
		},
	};
	struct iovec parts[] = {
		{ &ask->request, sizeof(ask->request) },
		{ (void *)ask->payload, ask->payload ? ask->request.length : 0 },
	};
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = ARRAY_SIZE(parts) };
	int socket;

	if (ask->fd >= 0) {
		memcpy(CMSG_DATA(&control.header), &ask->fd, sizeof(int));
		message.msg_control = &control;
		message.msg_controllen = sizeof(control.space);
	}
	socket = wire_op_is_urgent(ask->request.op) ? link->urgent : link->socket;
	if (sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		switch (errno) {
		case EAGAIN:
			return -EAGAIN;
		case ENOMEM:
		case ENOBUFS:
		case ETOOMANYREFS:
			return -ENOBUFS;
		case EBADF: /* the caller's own descriptor is bad */
			HASH_DEL(link->asks, ask);
			ask->fd = -1;
			link_refuse_locked(link, ask, EBADF);
			return 0;
		default: /* the worker is gone: lost, like all open requests */
			break;
		}
	}
	closep(&ask->fd);
	ask->sent = true;
	return 0;
}

bool link_can_send_locked(struct link *link)
{
	return link->state == LINK_READY && !link->ending;
}

void link_flush_locked(struct link *link)
{
	int r = 0;

	link->retry = NEVER;
	if (!link_can_send_locked(link))
		return;
	while (link->queue) {
		struct ask *ask = link->queue;

		/* Before sending: once answered the request belongs to the caller. */
		DL_DELETE(link->queue, ask);
		r = link_send_locked(link, ask);
		if (r == 0)
			continue;
		DL_PREPEND(link->queue, ask);
		if (r == -ENOBUFS)
			link->retry = clock_ms() + RETRY_MS;
		return;
	}
	if (link->stopping && !link->shut) {
		link->shut = true;
		shutdown(link->urgent, SHUT_WR);
		shutdown(link->socket, SHUT_WR);
	}
}

void link_enqueue_locked(struct link *link, struct ask *ask)
{
	bool urgent = wire_op_is_urgent(ask->request.op);

	if (link_can_send_locked(link) && (urgent || !link->queue)) {
		int r = link_send_locked(link, ask);

		if (r == 0)
			return;
		if (r == -ENOBUFS)
			link->retry = clock_ms() + RETRY_MS;
		link_wake(link);
	}
	DL_APPEND(link->queue, ask);
}

void link_answer_refused_locked(struct link *link)
{
	struct ask *ask;

	while ((ask = link->refused)) {
		DL_DELETE(link->refused, ask);
		pthread_mutex_unlock(&link->lock);
		ask_answer_refused(ask);
		pthread_mutex_lock(&link->lock);
	}
}

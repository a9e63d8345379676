/* SPDX-License-Identifier: MIT */
/* Sending: the queue of requests that the socket did not take, and refusals. */
#include "channel/private.h"

#include "base/clock.h"
#include "base/crash.h"
#include "base/hash.h"
#include "channel/request.h"
#include "protocol/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <utlist.h>

#define RETRY_MS 5 /* after a send failed because the kernel had no memory */

void request_answer(struct request *request, const struct wire_reply *reply, bool lost)
{
	closep(&request->fd);
	request->done(request, reply, lost);
}

/* The worker has ended, or had no descriptors to start. */
static bool request_is_lost(const struct request *request)
{
	return request->refused == EIO || request->refused == EMFILE ||
	       request->refused == ENFILE;
}

static void request_answer_refused(struct request *request)
{
	const struct wire_reply reply = {
		.id = request->record.id,
		.error = request->refused,
		.call = -1,
	};

	request_answer(request, &reply, request_is_lost(request));
}

void channel_refuse_locked(struct channel *channel, struct request *request, int error)
{
	request->refused = error;
	DL_APPEND(channel->refused, request);
	channel_wake(channel);
}

int channel_send_locked(struct channel *channel, struct request *request)
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
		{ &request->record, sizeof(request->record) },
		{ (void *)request->payload,
		  request->payload ? request->record.length : 0 },
	};
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = ARRAY_SIZE(parts) };

	if (request->fd >= 0) {
		memcpy(CMSG_DATA(&control.header), &request->fd, sizeof(int));
		message.msg_control = &control;
		message.msg_controllen = sizeof(control.space);
	}
	crash_point("worker: before a request is sent");
	if (sendmsg(channel_socket_of(channel, request), &message,
		    MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		switch (errno) {
		case EAGAIN:
			return -EAGAIN;
		case ENOMEM:
		case ENOBUFS:
		case ETOOMANYREFS:
			return -ENOBUFS;
		case EBADF: /* the caller's own descriptor is bad */
			HASH_DEL(channel->open_requests, request);
			channel_note_busy_locked(channel);
			request->fd = -1;
			channel_refuse_locked(channel, request, EBADF);
			return 0;
		default: /* the worker is gone: lost, like all open requests */
			break;
		}
	}
	crash_point("worker: a request is sent");
	closep(&request->fd);
	request->sent = true;
	return 0;
}

int channel_socket_of(const struct channel *channel, const struct request *request)
{
	return wire_op_is_urgent(request->record.op) ? channel->urgent : channel->socket;
}

bool channel_can_send_locked(struct channel *channel)
{
	return channel->state == CHANNEL_READY && !channel->ending;
}

void channel_flush_locked(struct channel *channel)
{
	int r = 0;

	channel->retry = NEVER;
	if (!channel_can_send_locked(channel))
		return;
	while (channel->queue) {
		struct request *request = channel->queue;

		/* Before sending: once answered the request belongs to the caller. */
		DL_DELETE(channel->queue, request);
		r = channel_send_locked(channel, request);
		if (r == 0)
			continue;
		DL_PREPEND(channel->queue, request);
		if (r == -ENOBUFS)
			channel->retry = clock_ms() + RETRY_MS;
		return;
	}
	if (channel->stopping && !channel->shut) {
		channel->shut = true;
		shutdown(channel->urgent, SHUT_WR);
		shutdown(channel->socket, SHUT_WR);
	}
}

void channel_enqueue_locked(struct channel *channel, struct request *request)
{
	bool urgent = wire_op_is_urgent(request->record.op);

	if (channel_can_send_locked(channel) && (urgent || !channel->queue)) {
		int r = channel_send_locked(channel, request);

		if (r == 0)
			return;
		if (r == -ENOBUFS)
			channel->retry = clock_ms() + RETRY_MS;
		channel_wake(channel);
	}
	DL_APPEND(channel->queue, request);
}

void channel_answer_refused_locked(struct channel *channel)
{
	struct request *request;

	while ((request = channel->refused)) {
		DL_DELETE(channel->refused, request);
		pthread_mutex_unlock(&channel->lock);
		request_answer_refused(request);
		pthread_mutex_lock(&channel->lock);
	}
}

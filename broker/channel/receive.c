/* SPDX-License-Identifier: MIT */
/* Replies, and the checks of replies. */
#include "channel/private.h"

#include "base/clock.h"
#include "cuda/driver.h"
#include "protocol/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/*
 * Time from the end of the socket to SIGKILL. With many contexts the driver may need
 * seconds to release them.
 */
#define GRACE_MS 5000

/* A rule was broken: later replies of this worker are ignored. */
static void link_break_locked(struct link *link, const char *record, const char *wrong)
{
	char reason[sizeof(link->reason)];

	if (link->ending)
		return;
	snprintf(reason, sizeof(reason), "broke the rules of the wire: %s with %s",
		 record, wrong);
	link_set_reason_locked(link, reason);
	link->ending = true;
	link_signal_locked(link);
	link_wake(link);
}

/*
 * The worker sends no more, and gets some time to exit with a meaningful status. As long
 * as a receiver has not seen the end, this receiver may still hold a reply.
 */
static void link_end_of_stream(struct link *link)
{
	pthread_mutex_lock(&link->lock);
	if (++link->n_receivers_done == link->config.n_threads && !link->ending) {
		link->ending = true;
		link->deadline = MIN(link->deadline, clock_ms() + GRACE_MS);
		link_wake(link);
	}
	pthread_mutex_unlock(&link->lock);
}

static void link_hello_failed_locked(struct link *link, const struct wire_reply *reply)
{
	char reason[sizeof(link->reason)];

	if (reply->call >= 0)
		snprintf(reason, sizeof(reason), "can't work: %s failed: %s",
			 cuda_call_name(reply->call), cuda_result_name(reply->result));
	else
		snprintf(reason, sizeof(reason), "can't work: %s",
			 strerrordesc_np(reply->error) ?: "unknown error");
	link_set_reason_locked(link, reason);
	link->ending = true;
	link->deadline = MIN(link->deadline, clock_ms() + GRACE_MS);
	link_wake(link);
}

void link_hello_done(struct ask *ask, const struct wire_reply *reply, bool lost)
{
	struct link *link = container_of(ask, struct link, hello);

	if (lost)
		return;
	pthread_mutex_lock(&link->lock);
	if (reply->error) {
		link_hello_failed_locked(link, reply);
	} else {
		link->state = LINK_READY;
		link_flush_locked(link);
		link_wake(link);
	}
	pthread_mutex_unlock(&link->lock);
}

/* Removes the request of a reply from the table; NULL when the rules are broken. */
static struct ask *link_match_locked(struct link *link, const struct wire_reply *reply)
{
	const char *wrong;
	struct ask *ask;

	if (link->ending)
		return NULL;
	HASH_FIND(hh, link->asks, &reply->id, sizeof(reply->id), ask);
	if (!ask || !ask->sent) {
		link_break_locked(link, "a reply", "no question to it");
		return NULL;
	}
	wrong = wire_check_reply(&ask->request, reply);
	if (wrong) {
		link_break_locked(link, "a reply", wrong);
		return NULL;
	}
	HASH_DEL(link->asks, ask);
	return ask;
}

static const char *record_check(ssize_t length, int flags)
{
	if (flags & MSG_CTRUNC)
		return "a descriptor";
	if ((flags & MSG_TRUNC) || length != sizeof(struct wire_reply))
		return "a wrong size";
	return NULL;
}

/* Tells the end of the stream from an empty record, which looks the same. */
static bool link_has_hung_up(const struct link *link)
{
	struct pollfd fd = { .fd = link->socket, .events = POLLRDHUP };

	return poll(&fd, 1, 0) != 0;
}

/* Takes one record. Returns: false at the end of the stream. */
static bool link_receive(struct link *link)
{
	struct wire_reply reply;
	struct iovec record = { &reply, sizeof(reply) };
	struct msghdr message = { .msg_iov = &record, .msg_iovlen = 1 };
	struct ask *ask = NULL;
	const char *wrong;
	ssize_t n;

	n = recvmsg(link->socket, &message, MSG_CMSG_CLOEXEC);
	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0 || (n == 0 && link_has_hung_up(link)))
		return false;

	wrong = record_check(n, message.msg_flags);
	pthread_mutex_lock(&link->lock);
	if (wrong)
		link_break_locked(link, "a record", wrong);
	else
		ask = link_match_locked(link, &reply);
	pthread_mutex_unlock(&link->lock);
	if (ask)
		ask_answer(ask, &reply, false);
	return true;
}

void *receiver_run(void *userdata)
{
	struct link *link = userdata;

	while (link_receive(link))
		;
	link_end_of_stream(link);
	return NULL;
}

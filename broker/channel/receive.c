/* SPDX-License-Identifier: MIT */
/* Replies, and the checks of replies. */
#include "channel/private.h"

#include "base/clock.h"
#include "base/crash.h"
#include "base/text.h"
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
/* From so many bytes on, to copy them to a reader takes longer than a small transfer. */
#define LONG_ANSWER ((uint64_t)64 << 10)

/* A rule was broken: later replies of this worker are ignored. */
static void channel_break_locked(struct channel *channel, const char *record,
				 const char *wrong)
{
	char reason[sizeof(channel->reason)];

	if (channel->ending)
		return;
	snprintf(reason, sizeof(reason), "broke the rules of the wire: %s with %s",
		 record, wrong);
	channel_set_reason_locked(channel, reason);
	channel->ending = true;
	channel_signal_locked(channel);
	channel_wake(channel);
}

/*
 * The worker sends no more, and gets some time to exit with a meaningful status. As long
 * as a receiver has not seen the end, this receiver may still hold a reply.
 */
static void channel_end_of_stream(struct channel *channel)
{
	pthread_mutex_lock(&channel->lock);
	if (++channel->n_receivers_done == channel->config.n_threads &&
	    !channel->ending) {
		channel->ending = true;
		channel->deadline = MIN(channel->deadline, clock_ms() + GRACE_MS);
		channel_wake(channel);
	}
	pthread_mutex_unlock(&channel->lock);
}

static void channel_hello_failed_locked(struct channel *channel,
					const struct wire_reply *reply)
{
	char reason[sizeof(channel->reason)];

	if (reply->call >= 0)
		snprintf(reason, sizeof(reason), "can't work: %s failed: %s",
			 cuda_call_name(reply->call), cuda_result_name(reply->result));
	else
		snprintf(reason, sizeof(reason), "can't work: %s",
			 strerrordesc_np(reply->error) ?: "unknown error");
	channel_set_reason_locked(channel, reason);
	channel->ending = true;
	channel->deadline = MIN(channel->deadline, clock_ms() + GRACE_MS);
	channel_wake(channel);
}

void channel_hello_done(struct request *request, const struct wire_reply *reply,
			bool lost)
{
	struct channel *channel = container_of(request, struct channel, hello);

	if (lost)
		return;
	pthread_mutex_lock(&channel->lock);
	if (reply->error) {
		channel_hello_failed_locked(channel, reply);
	} else {
		channel->state = CHANNEL_READY;
		channel_note_busy_locked(channel);
		channel_flush_locked(channel);
		channel_wake(channel);
	}
	pthread_mutex_unlock(&channel->lock);
}

/* Removes the request of a reply from the table; NULL when the rules are broken. */
static struct request *channel_match_locked(struct channel *channel,
					    const struct wire_reply *reply, size_t n_text)
{
	const char *wrong;
	struct request *request;

	if (channel->ending)
		return NULL;
	HASH_FIND(hh, channel->open_requests, &reply->id, sizeof(reply->id), request);
	if (!request || !request->sent) {
		channel_break_locked(channel, "a reply", "no question to it");
		return NULL;
	}
	wrong = wire_check_reply(&request->record, reply, n_text);
	if (wrong) {
		channel_break_locked(channel, "a reply", wrong);
		return NULL;
	}
	HASH_DEL(channel->open_requests, request);
	channel_note_busy_locked(channel);
	return request;
}

static const char *record_check(ssize_t length, int flags)
{
	if (flags & MSG_CTRUNC)
		return "a descriptor";
	if ((flags & MSG_TRUNC) || length < (ssize_t)sizeof(struct wire_reply))
		return "a wrong size";
	return NULL;
}

/* Tells the end of the stream from an empty record, which looks the same. */
static bool channel_has_hung_up(const struct channel *channel)
{
	struct pollfd fd = { .fd = channel->socket, .events = POLLRDHUP };

	return poll(&fd, 1, 0) != 0;
}

/* A record as received. */
struct record {
	struct wire_reply reply;
	char text[WIRE_TEXT_MAX + 1];
	ssize_t length; /* as recvmsg() returns it */
	int flags;
};

static void record_receive(const struct channel *channel, struct record *record,
			   int flags)
{
	struct iovec parts[] = { { &record->reply, sizeof(record->reply) },
				 { record->text, WIRE_TEXT_MAX } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = ARRAY_SIZE(parts) };

	record->length = recvmsg(channel->socket, &message, MSG_CMSG_CLOEXEC | flags);
	if (record->length > 0)
		crash_point("worker: an answer is read");
	record->flags = message.msg_flags;
}

/* The words come from a process of the owner, and become part of lines. */
static void channel_note_last_words_locked(struct channel *channel, const char *words)
{
	_cleanup_text_ struct text printable = TEXT_INIT;
	char reason[sizeof(channel->reason)];

	text_add_printable(&printable, words);
	snprintf(reason, sizeof(reason), "gave up: %s", text_string(&printable));
	for (char *c = reason; *c; c++)
		if (*c == '"')
			*c = '\'';
	channel_set_reason_locked(channel, reason);
}

/* Returns: the request answered by the record; NULL when it answers none. */
static struct request *channel_accept_record_locked(struct channel *channel,
						    struct record *record)
{
	const char *wrong = record_check(record->length, record->flags);
	struct request *request;
	size_t n_text;

	if (wrong) {
		channel_break_locked(channel, "a record", wrong);
		return NULL;
	}
	n_text = (size_t)record->length - sizeof(record->reply);
	record->text[n_text] = '\0';
	if (record->reply.id == WIRE_LAST_WORDS && n_text) {
		channel_note_last_words_locked(channel, record->text);
		return NULL;
	}
	request = channel_match_locked(channel, &record->reply, n_text);
	if (request)
		request->text = record->text[0] ? record->text : NULL;
	return request;
}

/* ---- long answers ---- */

static bool answer_is_long(const struct request *request, const struct record *record)
{
	return request->record.op == WIRE_READ && request->record.length >= LONG_ANSWER &&
	       !record->reply.error;
}

/*
 * All receivers but one may call back with long answers. More long answers wait until
 * such a receiver has finished; payers take turns. So short answers always find a
 * receiver. Returns: whether the answer waits.
 */
static bool answer_waits_locked(struct channel *channel, struct request *request,
				const struct record *record)
{
	if (!answer_is_long(request, record) ||
	    channel->n_long < MAX(channel->n_receivers - 1, 1U))
		return false;
	request->reply = record->reply;
	turns_add(&channel->long_answers, request->record.payer, &request->turn);
	return true;
}

/* Calls back with an answer, and with those that wait. */
static void answer_long(struct channel *channel, struct request *request,
			const struct wire_reply *reply)
{
	struct wire_reply next = *reply;
	struct turn *turn;

	while (request) {
		request_answer(request, &next, false);
		pthread_mutex_lock(&channel->lock);
		turn = turns_take(&channel->long_answers, NULL, NULL);
		request = turn ? container_of(turn, struct request, turn) : NULL;
		if (request)
			next = request->reply;
		else
			channel->n_long--;
		pthread_mutex_unlock(&channel->lock);
	}
}

/* Takes one record. Returns: false at the end of the stream. */
static bool channel_receive(struct channel *channel)
{
	struct request *request;
	struct record record;
	bool is_long;

	record_receive(channel, &record, 0);
	if (record.length < 0 && errno == EINTR)
		return true;
	if (record.length < 0 || (record.length == 0 && channel_has_hung_up(channel)))
		return false;

	pthread_mutex_lock(&channel->lock);
	request = channel_accept_record_locked(channel, &record);
	if (request && answer_waits_locked(channel, request, &record))
		request = NULL;
	is_long = request && answer_is_long(request, &record);
	channel->n_long += is_long;
	pthread_mutex_unlock(&channel->lock);
	if (is_long)
		answer_long(channel, request, &record.reply);
	else if (request)
		request_answer(request, &record.reply, false);
	return true;
}

/*
 * Under the lock a record is taken and matched as one: when the receivers have seen the
 * end of the stream, no other thread holds a reply.
 */
bool channel_take(struct channel *channel)
{
	struct request *request = NULL;
	struct record record;
	bool taken;

	pthread_mutex_lock(&channel->lock);
	record_receive(channel, &record, MSG_DONTWAIT);
	/* The end of the stream is for the receivers. */
	taken = record.length > 0 ||
		(record.length == 0 && !channel_has_hung_up(channel));
	if (taken)
		request = channel_accept_record_locked(channel, &record);
	if (request && answer_waits_locked(channel, request, &record))
		request = NULL;
	pthread_mutex_unlock(&channel->lock);
	if (request)
		request_answer(request, &record.reply, false);
	return taken;
}

void *receiver_run(void *userdata)
{
	struct channel *channel = userdata;

	while (channel_receive(channel))
		;
	channel_end_of_stream(channel);
	return NULL;
}

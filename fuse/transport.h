/* SPDX-License-Identifier: MIT */
/* The threads for the kernel's requests. */
#pragma once

#include "api/broker.h"

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

struct transport;

/* Looks at a request before libfuse. Returns: whether the request is answered. */
typedef bool transport_look(void *userdata, const struct fuse_buf *request);

/*
 * is: whether a request may take long; another thread then serves the request, and calls
 * learn before. There the users take turns, by *ret_user. Both NULL: no such requests.
 */
struct transport_slow {
	bool (*is)(void *userdata, const struct fuse_buf *request, uint64_t *ret_user);
	void (*learn)(void *userdata, const struct fuse_buf *request);
};

/*
 * Starts the threads. look may be NULL. answering is called once, when the kernel has the
 * answer to INIT; ended once, when the mount has gone or a thread can't go on.
 *
 * Returns: 0; -errno.
 */
int transport_new(struct transport **ret_transport, struct fuse_session *session,
		  struct broker *broker, transport_look *look, struct transport_slow slow,
		  void (*answering)(void *userdata), void (*ended)(void *userdata),
		  void *userdata);

/* Stops the threads, each after the request under way. */
struct transport *transport_free(struct transport *transport);

/* Has the threads finish the requests they have, and read no more; lets them go on. */
void transport_pause(struct transport *transport);
void transport_go_on(struct transport *transport);

/*
 * For broker_watch_view(), with a struct transport: whether requests of the kernel were
 * read since the last call, or none waits. While all threads handle requests that do not
 * end, none is read.
 */
bool transport_lives(void *userdata);

/* While paused: how many requests are in hand that take long, or were put off. */
unsigned int transport_n_left(struct transport *transport);

/* Whether another request of the kernel waits for a thread. For a thread that handles a
 * request. */
bool transport_is_awaited(void);

/*
 * The number of the request under way in this thread, and whether the kernel sends the
 * request again, after the death of a broker.
 */
uint64_t transport_unique(void);
bool transport_is_again(void);

/* The number of a request, from the kernel's number: without the bit for `again`. */
static inline uint64_t transport_unique_of(uint64_t of_kernel)
{
	return of_kernel & (UINT64_MAX >> 1);
}

/*
 * Lanes of threads of their own, one each, where a request waits for its user's turn.
 * TRANSPORT_SLOW is for requests that may take long by their kind (struct
 * transport_slow), TRANSPORT_SOCKETS for handlers that may wait for a user, and
 * TRANSPORT_BULK for those that copy much.
 */
enum transport_lane {
	TRANSPORT_SLOW,
	TRANSPORT_SOCKETS,
	TRANSPORT_BULK,
	N_TRANSPORT_LANES,
};

/*
 * Hands the request under way to a lane, where the handler runs from its beginning. The
 * caller drops the request without an answer. Returns: false: no memory.
 */
bool transport_put_off(enum transport_lane lane, uint64_t user);
/* Whether this is the thread of that lane. */
bool transport_is_put_off(enum transport_lane lane);

/* Whether a handler that copies so many bytes would keep others waiting. For a thread
 * that handles a request. */
bool transport_is_in_the_way(size_t size);

/* What the kernel asked this thread, header and all. */
const void *transport_request(void);

/* The buffer with this thread's request; NULL when no memory was left for a buffer that a
 * handler could keep. */
struct buffer *transport_buffer(void);

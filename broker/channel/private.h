/* SPDX-License-Identifier: MIT */
/*
 * Shared by the parts of the channel: sending (send.c), receiving (receive.c), the
 * supervisor (supervisor.c) and the interface (channel.c). Functions ending in _locked
 * need channel->lock.
 */
#pragma once

#include "base/look.h"
#include "channel/channel.h"
#include "channel/request.h"

#include <pthread.h>

struct wire_reply;

#define NEVER INT64_MAX /* no deadline */

struct channel {
	/* set by channel_new() */
	struct channel_config config;
	char *program, *driver, *name; /* config points to these */
	int socket;
	int urgent;	   /* socket for urgent requests */
	int worker_socket; /* the supervisor's; -1 once passed to the worker */
	int worker_urgent;
	int wake; /* eventfd that wakes the supervisor */
	pthread_t supervisor;
	pthread_t *receivers;
	unsigned int n_receivers;
	unsigned int n_receivers_done; /* receivers that have seen the end */

	pthread_mutex_t lock; /* guards everything below */
	enum channel_state state;
	struct request *open_requests; /* open requests, sent or queued; key: record.id */
	uint64_t last_id;
	struct request *queue;	 /* not sent yet */
	struct request *refused; /* never sent; the supervisor answers them */
	struct turns long_answers;
	unsigned int n_long; /* receivers that call back with long answers */
	struct request hello;
	pid_t pid;
	int pidfd;
	struct process_record *record; /* notes whether the process is busy; NULL: none */
	int64_t deadline; /* CLOCK_MONOTONIC in ms; the worker is killed then */
	int64_t retry;	  /* time of the next attempt to send */
	bool ending;	  /* replies are ignored from now on */
	bool stopping;	  /* to close the sending side once the queue is sent */
	bool shut;	  /* the sending side is closed */
	bool kill;	  /* kill the worker, even one not started yet */
	bool freed;
	unsigned int n_kept;   /* threads that may look here (look.c) */
	pthread_cond_t let_go; /* n_kept is 0 */
	struct look look;      /* how the last looks ended */
	char reason[256];      /* "" while there is no reason */
	int start_error; /* EMFILE, ENFILE: no descriptors to start the process; or 0.
			    The supervisor's */
};

/* ---- channel.c ---- */

void channel_wake(struct channel *channel);
void channel_signal_locked(struct channel *channel);
/* Only the first reason is kept: it is the cause. */
void channel_set_reason_locked(struct channel *channel, const char *reason);

/* Notes for the next broker whether the worker has something to do. */
void channel_note_busy_locked(struct channel *channel);

/*
 * Opens a request under an id of its own: a second reply, or one to an older request,
 * finds nothing. Returns: 0; ENOMEM.
 */
int channel_open_request_locked(struct channel *channel, struct request *request);

/* ---- send.c ---- */

/* Calls done, without the lock; the request is then the caller's again. */
void request_answer(struct request *request, const struct wire_reply *reply, bool lost);

/* Queues a request for the supervisor, to be answered with the error. */
void channel_refuse_locked(struct channel *channel, struct request *request, int error);

/* Answers the refused requests. Releases the lock in between. */
void channel_answer_refused_locked(struct channel *channel);

/* Where a request is sent. */
int channel_socket_of(const struct channel *channel, const struct request *request);

bool channel_can_send_locked(struct channel *channel);

/* Sends a request. Returns: 0; -EAGAIN, -ENOBUFS when the request has to wait. */
int channel_send_locked(struct channel *channel, struct request *request);

/* Sends a request, or appends it to the queue. */
void channel_enqueue_locked(struct channel *channel, struct request *request);

/* Sends queued requests, as far as the socket takes them. */
void channel_flush_locked(struct channel *channel);

/* ---- look.c ---- */

/* This thread has sent a request to the channel, and may look for the answer. */
void channel_asked(struct channel *channel);

/* Waits until no thread may look here any more. Releases the lock in between. */
void channel_wait_let_go_locked(struct channel *channel);

/* ---- receive.c, supervisor.c ---- */

/* Takes a record, if there is one, and calls back. Returns: whether there was one. */
bool channel_take(struct channel *channel);

/* Handles the answer to HELLO. */
void channel_hello_done(struct request *request, const struct wire_reply *reply,
			bool lost);

/* The error of requests that a worker which has ended didn't answer. */
int channel_lost_error(const struct channel *channel);

/* The threads. */
void *receiver_run(void *userdata);
void *supervisor_run(void *userdata);

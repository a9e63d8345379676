/* SPDX-License-Identifier: MIT */
/*
 * Shared by the parts of the link: sending (send.c), receiving (receive.c), the keeper
 * (supervisor.c) and the interface (channel.c). Functions ending in _locked need
 * link->lock.
 */
#pragma once

#include "channel/channel.h"

#include <pthread.h>

#define NEVER INT64_MAX /* no deadline */

struct link {
	/* set by link_new() */
	struct link_config config;
	char *program, *driver, *name; /* config points to these */
	int socket;
	int urgent;	   /* socket for urgent requests */
	int worker_socket; /* the keeper's; -1 once passed to the worker */
	int worker_urgent;
	int wake; /* eventfd that wakes the keeper */
	pthread_t keeper;
	pthread_t *receivers;
	unsigned int n_receivers;
	unsigned int n_receivers_done; /* receivers that have seen the end */

	pthread_mutex_t lock; /* guards everything below */
	enum link_state state;
	struct ask *asks; /* open requests, sent or queued; key: request.id */
	uint64_t last_id;
	struct ask *queue;   /* not sent yet */
	struct ask *refused; /* never sent; the keeper answers them */
	struct ask hello;
	pid_t pid;
	int pidfd;
	int64_t deadline; /* CLOCK_MONOTONIC in ms; the worker is killed then */
	int64_t retry;	  /* time of the next attempt to send */
	bool ending;	  /* replies are ignored from now on */
	bool stopping;	  /* to close the sending side once the queue is sent */
	bool shut;	  /* the sending side is closed */
	bool kill;	  /* kill the worker, even one not started yet */
	bool freed;
	char reason[256]; /* "" while there is no reason */
};

/* ---- channel.c ---- */

void link_wake(struct link *link);
void link_signal_locked(struct link *link);
/* Only the first reason is kept: it is the cause. */
void link_set_reason_locked(struct link *link, const char *reason);

/*
 * Opens a request under an id of its own: a second reply, or one to an older request,
 * finds nothing. Returns: 0; ENOMEM.
 */
int link_open_ask_locked(struct link *link, struct ask *ask);

/* ---- send.c ---- */

/* Calls done, without the lock; the request is then the caller's again. */
void ask_answer(struct ask *ask, const struct wire_reply *reply, bool lost);

/* Queues a request for the keeper, to be answered with the error. */
void link_refuse_locked(struct link *link, struct ask *ask, int error);

/* Answers the refused requests. Releases the lock in between. */
void link_answer_refused_locked(struct link *link);

bool link_can_send_locked(struct link *link);

/* Sends a request. Returns: 0; -EAGAIN, -ENOBUFS when the request has to wait. */
int link_send_locked(struct link *link, struct ask *ask);

/* Sends a request, or appends it to the queue. */
void link_enqueue_locked(struct link *link, struct ask *ask);

/* Sends queued requests, as far as the socket takes them. */
void link_flush_locked(struct link *link);

/* ---- receive.c, supervisor.c ---- */

/* Handles the answer to HELLO. */
void link_hello_done(struct ask *ask, const struct wire_reply *reply, bool lost);

/* The threads. */
void *receiver_run(void *userdata);
void *keeper_run(void *userdata);

/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the link share: sending (send.c), receiving (receive.c), the keeper
 * (keeper.c) and who asks (link.c). Functions that end in _locked want link->lock.
 */
#pragma once

#include "channel/channel.h"

#include "channel/inflight.h"

#include <pthread.h>

#define NEVER INT64_MAX /* of a deadline */

struct ask_queue {
	struct ask *first;
	struct ask **end;
};

struct link {
	/* set by link_new() */
	struct link_config config;
	char *program, *driver, *name; /* what config points to */
	int socket;
	int urgent;	   /* for what nothing must hold up */
	int worker_socket; /* the keeper's, -1 once the worker has them */
	int worker_urgent;
	int wake; /* eventfd that wakes the keeper */
	pthread_t keeper;
	pthread_t *receivers;
	unsigned int n_receivers;
	unsigned int n_receivers_done; /* that have seen the end */

	pthread_mutex_t lock; /* guards everything below */
	enum link_state state;
	struct ask_table asks;	  /* open questions, whether sent or in the queue */
	struct ask_queue queue;	  /* not sent yet */
	struct ask_queue refused; /* never sent: the keeper answers them */
	struct ask hello;
	pid_t pid;
	int pidfd;
	int64_t deadline; /* CLOCK_MONOTONIC in ms, when the worker is killed */
	int64_t retry;	  /* when to send again */
	bool ending;	  /* its answers count no more */
	bool stopping;	  /* the queue is sent, and then the sending side is closed */
	bool shut;	  /* it is closed */
	bool kill; /* the worker is to be killed, also when it is not started yet */
	bool freed;
	char reason[256]; /* "" until there is one */
};

/* ---- link.c ---- */

void link_wake(struct link *link);
void link_signal_locked(struct link *link);
/* The first reason is the cause. */
void link_set_reason_locked(struct link *link, const char *reason);

/* ---- send.c ---- */

void queue_init(struct ask_queue *queue);

/* Calls back, without the lock; the ask is the asker's again. */
void ask_answer(struct ask *ask, const struct wire_reply *reply, bool lost);

/* Has the keeper answer it with that error. */
void link_refuse_locked(struct link *link, struct ask *ask, int error);

/* Answers what was refused. The lock is given up in between. */
void link_answer_refused_locked(struct link *link);

bool link_can_send_locked(struct link *link);

/* Sends one question. Returns: 0; -EAGAIN, -ENOBUFS where it has to wait. */
int link_send_locked(struct link *link, struct ask *ask);

/* Sends it, or puts it behind what waits. */
void link_enqueue_locked(struct link *link, struct ask *ask);

/* Sends what waits, as far as the socket takes it. */
void link_flush_locked(struct link *link);

/* ---- receive.c, keeper.c ---- */

/* HELLO's answer. */
void link_hello_done(struct ask *ask, const struct wire_reply *reply, bool lost);

/* The threads. */
void *receiver_run(void *userdata);
void *keeper_run(void *userdata);

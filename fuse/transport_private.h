/* SPDX-License-Identifier: MIT */
/* For transport.c, which has the threads, and transport_turn.c: which of them may read.
 */
#pragma once

#include "base/look.h"
#include "base/watchdog.h"
#include "slow_lane.h"
#include "transport.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define N_THREADS 4
/* From so many bytes on, copying takes longer than to wake another thread. */
#define LARGE 65536

struct transport {
	struct fuse_session *session;
	struct broker *broker;
	transport_look *look;
	struct transport_slow slow;
	struct slow_lane lanes[N_TRANSPORT_LANES];
	unsigned int n_lanes; /* with a thread */
	void (*answering)(void *userdata);
	void (*ended)(void *userdata);
	void *userdata;
	int is_answering; /* atomic */
	int has_ended;	  /* atomic */
	unsigned int n_threads;
	pthread_t threads[N_THREADS];
	struct watchdog watchdog;
	bool watched;
	struct look looks;    /* of the thread with the turn, which alone uses them */
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t left;
	pthread_cond_t turn;	/* is free, or the session ends */
	unsigned int n_serving; /* threads */
	bool paused;
	unsigned int n_parked;	     /* threads, while paused */
	const struct thread *reader; /* has the turn; NULL: nobody */
	struct thread *reading;	     /* threads, with or without the turn */
	unsigned int n_handling;     /* threads */
	uint64_t crowd_until_ns;     /* CLOCK_MONOTONIC; until then all threads read */
	unsigned int load;	     /* see LOAD_MAX */
	uint64_t n_handled;	     /* requests begun with the turn in hand */
	uint64_t n_seen;	     /* of them when the watchdog looked */
	uint64_t n_read;	     /* requests, by all threads */
	uint64_t n_lived;	     /* of them at the last transport_lives() */
};

/* A thread, and the buffer for requests. */
struct thread {
	struct transport *transport;
	pthread_t id;
	struct buffer shared; /* memory NULL: none */
	uint8_t *own;	      /* REQUEST_MAX bytes */
	bool is_reading, is_handling;
	bool in_crowd;		    /* all read when this thread began to read */
	bool is_calm;		    /* one program at a time asked then */
	struct thread *prev, *next; /* of transport->reading */
};

/* Waits until the thread may read. Returns: false at the end of the session. */
bool transport_turn_take(struct thread *thread);

/* Looks for the next request for a moment. A thread without the turn does not. */
void transport_turn_look_ahead(const struct thread *thread);

/* The thread has read a request: goes on with the turn, or passes the turn on. */
void transport_turn_use(struct thread *thread, const struct fuse_buf *request);

/* The thread reads no more. Under transport->lock. */
void transport_turn_leave(struct thread *thread);

/* For the watchdog, with a struct transport: takes the turn from a thread that handled
 * the same request at the last look. */
bool transport_turn_look_after(void *userdata);

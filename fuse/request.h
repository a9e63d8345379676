/* SPDX-License-Identifier: MIT */
/*
 * Requests of the kernel that may have to wait for the broker, and their senders.
 */
#pragma once

#include "api/broker.h"
#include "base/hash.h"

#include <pthread.h>

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

struct groups_seen;
struct request;
struct view;

/* Answers the kernel; error is 0 or negative. bytes are valid until the return. */
typedef void request_reply(struct request *request, int error, const void *bytes,
			   size_t length);

/* Ends a wait early, for waits outside the broker. */
typedef void request_cancel(struct request *request);

/*
 * A request under way: made by request_new(), its wait given to one call of the broker,
 * then request_wait(): from there on the answer owns the request.
 */
struct request {
	struct completion wait;
	struct view *view;
	fuse_req_t req;
	request_reply *reply;
	request_cancel *cancel;

	/* for reply */
	void *context;
	struct request *queue_next; /* of the readers of a file */
	fuse_ino_t ino;
	struct fuse_file_info info;
	size_t size;
	off_t offset;

	/* A file is being closed or synchronized. When the end of a program closes the
	 * file, nobody hears the answer and no signal can end the wait: do not wait. */
	bool closes;

	/* private to request.c */
	pthread_mutex_t lock;
	bool answered; /* lock */
	bool armed;    /* lock: on the list, interrupts of the kernel arrive */
	int64_t armed_ms;
	unsigned int n_refs;
	uint64_t unique;
	UT_hash_handle hh;	     /* in requests.armed */
	struct request *prev, *next; /* requests.lock, as those below */
	struct watcher *watcher;     /* NULL: not wanted */
	unsigned int round;	     /* of the watcher, that has looked at it */
	bool busy;		     /* being looked at right now */
	bool cancelled;		     /* the watcher's */
};

/* A thread that looks for signals of wanted requests. */
struct watcher {
	struct requests *requests;
	pthread_t thread;
	pthread_cond_t changed; /* a request is wanted, or the watcher is to end */
	struct request *wanted; /* requests.lock, as those below */
	unsigned int round;
	/* By a hash of the user, the round of the last look; NULL: users take no turns.
	 */
	unsigned int *turns;
};

/* The waiting requests. */
struct requests {
	struct groups_seen *groups; /* borrowed */
	pthread_mutex_t lock;
	pthread_cond_t idle;	 /* no request is busy */
	struct request *waiting; /* lock */
	struct request *armed;	 /* by unique: all that wait; lock */
	struct early *early;	 /* by unique; lock */
	unsigned int n_early;	 /* atomic */
	bool ending;		 /* lock */
	unsigned int n_changing; /* atomic: requests that are not plain reads */
	/*
	 * A look at a user with many groups takes long (groups.h). One watcher looks at
	 * such users, once for each user a round, the other at everybody else.
	 */
	struct watcher quick, patient;
};

/* groups is borrowed. Returns: 0; -errno. */
int requests_init(struct requests *requests, struct groups_seen *groups);

/* Cancels waiting requests and waits a bounded time for their answers.
 * Returns: 0; -ETIMEDOUT when some still wait. */
int requests_deinit(struct requests *requests);

/*
 * To be called for each request of the kernel, before libfuse. Returns: whether this was
 * an interrupt, and libfuse is not to have it.
 */
bool requests_interrupt(struct requests *requests, struct fuse_session *session,
			const struct fuse_buf *buffer);

/* How many have no answer yet, of those that can't be made twice. */
unsigned int requests_n_changing(const struct requests *requests);

/* Returns: a request; NULL after the kernel was answered ENOMEM. */
struct request *request_new(struct view *view, fuse_req_t req, request_reply *reply);

/* The wait was given away: from now on signals can end it. */
void request_wait(struct request *request);

/* The usual answers. */
request_reply request_reply_error;
request_reply request_reply_bytes;
request_reply request_reply_written;

/* Answers with an error, 0 or negative: the only place that turns the sign. */
void reply_error(fuse_req_t req, int error);

/* ---- callers ---- */

/* A caller and the memory of the groups. */
struct identity {
	struct caller caller;
	gid_t *groups;
};

/* The sender of a request, without supplementary groups. */
struct caller caller_of(fuse_req_t req);

/* The same with them; root's don't matter. Returns: 0; -ENOMEM. */
int identity_init(struct identity *identity, fuse_req_t req);
void identity_deinit(struct identity *identity);
#define _cleanup_identity_ _cleanup_(identity_deinit)

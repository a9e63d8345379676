/* SPDX-License-Identifier: MIT */
/*
 * Requests of the kernel that may have to wait for the broker, and who sent them.
 */
#pragma once

#include "api/broker.h"

#include <pthread.h>

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

struct request;
struct view;

/* Answers the kernel; error is 0 or negative. bytes are valid until it returns. */
typedef void request_reply(struct request *request, int error, const void *bytes,
			   size_t length);

/* Ends a wait early, for waits that are not the broker's. */
typedef void request_cancel(struct request *request);

/*
 * One request on its way. Made with request_new(), its wait given to one call of the
 * broker, then request_wait(): from there on it belongs to the answer.
 */
struct request {
	struct wait wait;
	struct view *view;
	fuse_req_t req;
	request_reply *reply;
	request_cancel *cancel;

	/* What reply needs. */
	void *context;
	fuse_ino_t ino;
	struct fuse_file_info info;
	size_t size;
	off_t offset;

	/* Memory that this user may change may have changed by the time it is answered:
	 * the kernel's pages of it are dropped first (page_cache.h). */
	bool changes;
	uid_t uid;

	/* A file is being closed, or synchronized. When a program's end closes it, nobody
	 * is told of its answer and no signal can end its wait, so it does not wait. */
	bool closes;

	/* private to request.c */
	int error; /* of an answer that is held back, as length */
	size_t length;
	pthread_mutex_t lock;
	bool answered; /* lock */
	bool armed;    /* lock: the kernel's interrupts reach it, it is on the list */
	unsigned int n_refs;
	struct request *prev, *next; /* requests.lock, as all below */
	bool wanted;		     /* the kernel says that a signal came */
	bool cancelled;
	bool busy; /* being cancelled right now */
};

/* The requests that wait. */
struct requests {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct request *waiting; /* lock */
	unsigned int n_wanted;	 /* lock */
	bool ending;		 /* lock */
	pthread_t watcher;
};

/* Returns: 0; -errno. */
int requests_init(struct requests *requests);

/* Cancels what waits and gives it a bounded time to be answered.
 * Returns: 0; -ETIMEDOUT when some still wait. */
int requests_deinit(struct requests *requests);

/* Returns: a request; NULL after the kernel was answered ENOMEM. */
struct request *request_new(struct view *view, fuse_req_t req, request_reply *reply);

/* The wait was given away: from now on signals can end it. */
void request_wait(struct request *request);

/* Gives up a request whose wait went nowhere, without an answer to the kernel. */
void request_drop(struct request *request);

/* The usual answers. */
request_reply request_reply_error;
request_reply request_reply_bytes;
request_reply request_reply_written;

/* Answers with an error, 0 or negative: the only place where its sign is turned. */
void reply_error(fuse_req_t req, int error);

/* ---- who asks ---- */

#define N_GROUPS_MAX 65536

/* A caller and the memory of its groups. */
struct identity {
	struct caller caller;
	gid_t *groups;
};

/* Who sent it, without the supplementary groups. */
struct caller caller_of(fuse_req_t req);

/* The same with them; root's don't matter. Returns: 0; -ENOMEM. */
int identity_init(struct identity *identity, fuse_req_t req);
void identity_deinit(struct identity *identity);
#define _cleanup_identity_ _cleanup_(identity_deinit)

/* SPDX-License-Identifier: MIT */
/*
 * The broker's side of a worker: starts it, sends requests, notices its end.
 *
 * A link has threads of its own. They start the worker program (PDEATHSIG follows the
 * forking thread), receive the replies, and after the worker's end answer all open
 * requests. Sending a request never blocks: requests that the socket does not take wait
 * in a queue, which the keeper thread sends. All functions may be called from any thread,
 * with or without locks of the caller. Callbacks come from the link's threads with no
 * lock held, never from within a call of these functions.
 *
 * The broker does not trust a worker: a reply without a request, of a wrong size, with an
 * impossible value or with descriptors ends the worker.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "channel/request.h"

struct link;

enum link_state {
	LINK_STARTING, /* no answer to HELLO yet; requests wait for it */
	LINK_READY,
	LINK_ENDED, /* the process is gone: the link's thread answers every link_ask() as
		       lost */
};

struct link_config {
	const char *program; /* the worker program */
	const char *driver;  /* the driver library */
	const char *name;    /* for ps and messages: "mover" or the owner's uid */
	bool mover;	     /* maps all memory; else an owner's worker */
	uid_t uid;	     /* user of an owner's worker, if the broker is root */
	gid_t gid;
	int staging_fd; /* sealed memfd, shared with this worker only; remains the
			   caller's */
	uint64_t staging_size;
	int output_fd; /* stdout of the worker, owned by the link once made; -1: the
			  broker's */
	unsigned int n_threads; /* number of receivers (>= 1) */

	/*
	 * The worker is gone and all open requests have been answered. reason is a
	 * sentence ("was killed by signal 9"), valid during the call. Called once, also
	 * after link_stop(). Any other thread can free the link afterwards.
	 */
	void (*ended)(void *userdata, struct link *link, const char *reason);
	void *userdata;
};

/*
 * Makes a link and starts its worker in the background.
 *
 * Returns: 0; -ENOMEM, -EMFILE, -EAGAIN when threads or descriptors are missing. A
 * program that can't be run shows as the worker's end.
 */
int link_new(struct link **ret_link, const struct link_config *config);

/* Waits for the link's threads and frees the link; kills a worker that still runs. */
struct link *link_free(struct link *link);

/*
 * Sends a request. Never blocks and never fails. The link's thread answers a request that
 * can't be sent: as lost once the worker is gone, or with EINVAL, EBADF or ENOMEM.
 */
void link_ask(struct link *link, struct ask *ask);

/*
 * Asks the worker to end: sends all earlier requests, then closes the sending side of the
 * socket. Kills the worker after the given seconds. Later requests are lost.
 */
void link_stop(struct link *link, unsigned int seconds);

/* Ends the worker at once, with SIGKILL. */
void link_kill(struct link *link);

enum link_state link_state(struct link *link);
pid_t link_pid(struct link *link); /* 0 when there is none */

/* The reason of the end, in state LINK_ENDED; "" before. */
void link_reason(struct link *link, char *ret_reason, size_t size);
unsigned int link_pending(struct link *link); /* number of open requests */

/* SPDX-License-Identifier: MIT */
/*
 * The broker's side of one worker: start it, ask it, notice its end.
 *
 * A link has a thread of its own, which starts the worker program (PDEATHSIG follows the
 * thread that forked), receives the answers and, at the worker's end, answers whatever it
 * left open. Asking never blocks: what the socket does not take waits in a queue that the
 * same thread empties. All functions may be called from any thread, with or without locks
 * of the caller; callbacks come from the link's threads with no lock held, never from
 * within a call of these functions.
 *
 * Nothing that a worker says is believed: a reply to no question, of the wrong size, with
 * an impossible value or with descriptors ends the worker.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "gpumem/wire.h"

struct link;

/*
 * One question. Embedded in what asks; the asker owns it again from the moment done is
 * called. fd goes along with the request and belongs to the link from link_ask() on.
 */
struct ask {
	struct wire_request request; /* all but id */
	int fd;			     /* -1: none */
	const void *payload; /* request.length bytes, the asker's until done; or NULL */

	/*
	 * Called exactly once. A worker that ended before it answered shows as error EIO,
	 * call -1 and lost set; whatever was asked then may or may not have been done.
	 * One that breaks a rule of the wire itself is not sent: EINVAL.
	 */
	void (*done)(struct ask *ask, const struct wire_reply *reply, bool lost);

	/* private to the link */
	struct ask *next;
	int refused; /* errno of one that was never sent */
};

enum link_state {
	LINK_STARTING, /* the worker has not answered HELLO yet; questions wait for it */
	LINK_READY,
	LINK_ENDED, /* it is gone: link_ask() answers at once (from the link's thread) as
		       lost */
};

struct link_config {
	const char *program; /* the worker program */
	const char *driver;  /* the driver library */
	const char *name;    /* for ps and messages: "mover" or the owner's uid */
	bool mover;	     /* may see all memory; else an owner's worker */
	uid_t uid; /* whom an owner's worker runs as, where the broker is root */
	gid_t gid;
	int staging_fd; /* sealed memfd, shared with this worker only; stays the caller's
			 */
	uint64_t staging_size;
	int output_fd; /* where it prints to, the link's once it is made; -1: as the
			  broker */
	unsigned int n_threads; /* that receive answers (>= 1) */

	/*
	 * The worker is gone, after all open questions were answered; reason is a
	 * sentence
	 * ("was killed by signal 9"), valid during the call. Called once, also after
	 * link_stop(). The link can be freed from any other thread afterwards.
	 */
	void (*ended)(void *userdata, struct link *link, const char *reason);
	void *userdata;
};

/*
 * Makes a link and starts its worker in the background.
 *
 * Returns: 0; -ENOMEM, -EMFILE, -EAGAIN where threads or descriptors can't be had. That
 * the program can't be run shows as its end.
 */
int link_new(struct link **ret_link, const struct link_config *config);

/* Waits for the link's threads and frees it; kills the worker if it still runs. */
struct link *link_free(struct link *link);

/*
 * Asks. Never blocks and never fails: what can't be sent is answered by the link's own
 * thread, as lost once the worker is gone, or with EINVAL, EBADF or ENOMEM.
 */
void link_ask(struct link *link, struct ask *ask);

/*
 * Asks the worker to end by closing the socket's sending side, once all that was asked
 * before is sent; kills it after seconds. What is asked later is lost.
 */
void link_stop(struct link *link, unsigned int seconds);

/* Ends it at once, with SIGKILL. */
void link_kill(struct link *link);

enum link_state link_state(struct link *link);
pid_t link_pid(struct link *link); /* 0 when there is none */

/* Why it ended, known once the state is LINK_ENDED; "" before. */
void link_reason(struct link *link, char *ret_reason, size_t size);
unsigned int link_pending(struct link *link); /* questions without an answer */

/* SPDX-License-Identifier: MIT */
/* A request to a worker, and its reply. */
#pragma once

#include <stdbool.h>

#include <gpumem/wire.h>

#include "base/hash.h"
#include "base/turns.h"

/*
 * A request. Embedded in the caller's struct, which belongs to the caller again once done
 * is called. fd is sent along and belongs to the channel from channel_send() on.
 */
struct request {
	struct wire_request record; /* all fields except id */
	int fd;			    /* -1: none */
	const void *payload; /* record.length bytes, owned by the caller until done; or
				NULL */

	/*
	 * Called exactly once. If the worker has ended without an answer: error EIO, call
	 * -1 and lost set; the request may or may not have been carried out. If the
	 * worker was never started for lack of descriptors, error is EMFILE or ENFILE. A
	 * request that breaks a rule of the wire is not sent: EINVAL.
	 */
	void (*done)(struct request *request, const struct wire_reply *reply, bool lost);

	/*
	 * During done: the text behind an error, NUL terminated and not trusted; NULL:
	 * none.
	 */
	const char *text;

	/* private to the channel */
	struct request *prev, *next;
	int refused;	   /* errno of a request that was never sent */
	bool sent;	   /* the worker knows the id */
	UT_hash_handle hh; /* of the open requests */
	struct turn turn;  /* among long answers that wait: */
	struct wire_reply reply;
};

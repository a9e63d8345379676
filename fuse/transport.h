/* SPDX-License-Identifier: MIT */
/* The threads that take requests from the kernel. */
#pragma once

#include "api/broker.h"

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

struct transport;

/*
 * Starts the threads. answering is called once, when the kernel has been told that the
 * mount is there; ended once, when the mount has gone or a thread can't go on.
 *
 * Returns: 0; -errno.
 */
int transport_new(struct transport **ret_transport, struct fuse_session *session,
		  struct broker *broker, void (*answering)(void *userdata),
		  void (*ended)(void *userdata), void *userdata);

/* Stops the threads; what a thread is at it finishes. */
struct transport *transport_free(struct transport *transport);

/* The buffer that the request of this thread was read to; NULL when there was no memory
 * for one that could be kept. */
struct buffer *transport_buffer(void);

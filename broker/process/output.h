/* SPDX-License-Identifier: MIT */
/*
 * What an owner's kernels print: the end of what his workers wrote on stdout and stderr.
 *
 * Each run of a worker writes into a pipe of its own. One thread empties all of them, so
 * that no worker waits for a reader; whoever looks at an output drains it first, so that
 * what was printed before a kernel's end is known is seen after it.
 */
#pragma once

#include <pthread.h>

#include "base/text.h"

#define OUTPUT_KEPT 65536 /* bytes of each output */

struct output;

/* The thread, and what it watches. */
struct outputs {
	pthread_t thread;
	int epoll;
	int stop; /* eventfd */
	bool runs;
};

int outputs_init(struct outputs *outputs);
/* No worker writes any more. */
void outputs_deinit(struct outputs *outputs);

struct output *output_new(struct outputs *outputs);
struct output *output_free(struct output *output);

/*
 * A pipe for a new run to write into.
 * Returns: a descriptor, the caller's to close; -EMFILE, -ENOMEM.
 */
int output_open(struct output *output);

/* Takes what the pipes have, of each no more than a pipe holds. No lock held. */
void output_drain(struct output *output);

/* Appends all that is kept, from the start of a line where something was dropped. */
void output_show(struct output *output, struct text *text);

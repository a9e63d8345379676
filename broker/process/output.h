/* SPDX-License-Identifier: MIT */
/*
 * Output of an owner's kernels: the last bytes written to stdout and stderr by the
 * owner's workers.
 *
 * Each worker process writes into a pipe of its own. One thread empties all pipes, so no
 * worker waits for a reader. A reader drains the output first, and so sees all that was
 * printed before a kernel's end became known.
 *
 * The bytes lie in a record, and so the next broker has them.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define OUTPUT_KEPT 65536 /* bytes of each output */

struct output;
struct records;
struct text;

/* The thread and the pipes it watches. */
struct outputs {
	pthread_t thread;
	int epoll;
	int stop; /* eventfd */
	bool runs;
};

int outputs_init(struct outputs *outputs);
/* Call when no worker is left. */
void outputs_deinit(struct outputs *outputs);

/* records: NULL: none are kept. Returns: NULL: no memory. */
struct output *output_new(struct outputs *outputs, struct records *records, uint32_t uid);

/* The output of the last broker, from the live record at the index. As output_new(). */
struct output *output_restore(struct outputs *outputs, struct records *records,
			      uint32_t index);

/* Takes NULL, and drops the record. Returns: NULL. */
struct output *output_free(struct output *output);

/*
 * Makes a pipe for the output of a new process. Returns: a descriptor, which the caller
 * closes; -EMFILE, -ENOMEM.
 */
int output_open(struct output *output);

/* Reads from the pipes, at most a pipe's capacity from each. No lock held. */
void output_drain(struct output *output);

/* Whether a process may still write, or somebody reads. */
bool output_is_open(struct output *output);

/* Whether nothing has been written. */
bool output_is_empty(struct output *output);

/* Appends the kept bytes, from the start of a line if older bytes were dropped. */
void output_show(struct output *output, struct text *text);

/* SPDX-License-Identifier: MIT */
/*
 * The file `metrics`. With a thousand owners a text of more than a megabyte takes 0.1 s,
 * so a thread of its own makes the texts, one at a time: a text is for all readers who
 * asked before it was begun, and whoever asks meanwhile gets the next one. So every
 * reader sees what was done before the read, and many readers cost one thread. The work
 * queue would not do: its threads may be stuck in the driver, which the file is to tell.
 */
#pragma once

#include <pthread.h>

#include "model/object.h"

struct broker;
struct caller;
struct completion;
struct metrics_reader;

struct metrics_file {
	struct broker *broker;
	pthread_t thread;
	bool runs;
	pthread_cond_t wake;		/* of the thread, with registry.lock */
	struct metrics_reader *waiting; /* for the next text; registry.lock */
	bool ending;			/* registry.lock */
};

/* Starts the thread. Returns: 0; -EAGAIN. */
int metrics_file_init(struct metrics_file *file, struct broker *broker);
/* Answers all who wait, and ends the thread. */
void metrics_file_deinit(struct metrics_file *file);

/* The request of the attribute: done's bytes are the text. Errors: -EINTR, -ENOMEM;
 * -EBUSY: the caller's share of questions. */
void ask_metrics(struct broker *broker, struct token token, const struct caller *caller,
		 struct completion *wait);

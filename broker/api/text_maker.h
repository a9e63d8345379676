/* SPDX-License-Identifier: MIT */
/*
 * Long texts that everybody may read: `metrics`, the lists of leases, `params`. Such a
 * text has a megabyte and more and takes 0.1 s, so a thread of its own makes the texts,
 * one at a time. A text is for all readers who asked for it before it was begun, and
 * whoever asks meanwhile gets the next one. So every reader sees what was done before the
 * read, and many readers cost one thread. Different texts take turns: the users who were
 * their first readers do. The work queue would not do: its threads may be stuck in the
 * driver, and these texts are to tell that.
 */
#pragma once

#include <pthread.h>

#include "base/turns.h"
#include "model/object.h"

struct attribute;
struct broker;
struct caller;
struct completion;
struct text_reader;

struct text_maker {
	struct broker *broker;
	pthread_t thread;
	bool runs;
	pthread_cond_t wake; /* of the thread, with registry.lock */
	/* Under registry.lock: */
	struct text_reader *waiting; /* first readers of the next texts, by text */
	struct turns order;	     /* of these */
	bool ending;
};

/* Starts the thread. Returns: 0; -EAGAIN. */
int text_maker_init(struct text_maker *maker, struct broker *broker);
/* Answers all who wait, and ends the thread. */
void text_maker_deinit(struct text_maker *maker);

/*
 * Asks for the text of an attribute with print(): done's bytes are the text. Errors:
 * those of print(); -EINTR, -ENOMEM; -EBUSY: the caller's share of questions.
 */
void text_maker_ask(struct broker *broker, struct token token,
		    const struct attribute *attribute, const struct caller *caller,
		    struct completion *wait);

/* SPDX-License-Identifier: MIT */
/*
 * The attributes of every type of object: one table makes their files, `status` and the
 * README of the mount.
 */
#pragma once

#include "api/broker.h"

enum attribute_flag {
	ATTRIBUTE_ASKED = 1 << 0, /* asked of a worker (broker_ask), or more than a line:
				     not in `status` */
	ATTRIBUTE_WRITABLE = 1 << 1,  /* by its owner, broker_store() */
	ATTRIBUTE_ROOT_FILE = 1 << 2, /* of the broker: a file of its own in the root */
	ATTRIBUTE_MANAGED = 1 << 3,   /* only managed memory has the file */
	ATTRIBUTE_PRIVATE = 1 << 4,   /* the owner's (and root's) to read */
	ATTRIBUTE_NO_FILE = 1 << 5,   /* in `status` only: a verb's file has the name */
	ATTRIBUTE_TEXT = 1 << 6,      /* any number of lines, not in `status` */
};

struct attribute_view; /* what show functions see, see attribute.c */

struct attribute {
	const char *name;
	const char *help; /* one line, no period */
	unsigned int flags;
	void (*show)(const struct attribute_view *view, struct text *text);

	/* Called before show, no lock held. NULL: nothing comes before it. */
	void (*prepare)(struct broker *broker, struct token token);

	/* Of one flagged ATTRIBUTE_ASKED: see broker_ask(). */
	void (*ask)(struct broker *broker, struct token token,
		    const struct caller *caller, struct wait *wait);
};

/* The table of a type, n rows; in the order of `status`. */
const struct attribute *attribute_table(enum object_type type, size_t *ret_n);

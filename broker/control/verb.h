/* SPDX-License-Identifier: MIT */
/* A verb: a row of the table in api/verb_table.c. */
#pragma once

#include "base/text.h"
#include "model/object.h"

struct broker;
struct caller;
struct command;
struct wait;

struct verb {
	const char *name;
	const char *usage; /* the grammar of a line in control/NAME; NULL: no such file */
	const char *help;  /* one line */

	/* The type of object whose folder has this file too, OBJECT_BROKER for none;
	 * there a line has no name in front and its usage is object_usage. */
	enum object_type object;
	const char *object_usage;
	bool managed; /* only the folders of managed memory have it */

	/* Starts one line; see command.h. */
	void (*run)(struct command *command);

	/* What a line answers about the object that it has made. NULL: nothing. */
	int (*answer)(struct broker *broker, struct token token, struct text *text);

	/*
	 * What a fresh read of the object's own file prints: done's bytes are its text.
	 * NULL: its usage.
	 */
	void (*state)(struct broker *broker, struct token token,
		      const struct caller *caller, struct wait *wait);
};

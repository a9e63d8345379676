/* SPDX-License-Identifier: MIT */
/* A verb: a row of the table in api/verb_table.c. */
#pragma once

#include "model/object.h"

struct broker;
struct caller;
struct command;
struct completion;

struct verb {
	const char *name;
	const char *usage; /* of a line in control/NAME (usage.h); NULL: no such file */
	const char *help;  /* one line */

	/*
	 * The type of objects with this file in their folder; OBJECT_BROKER: none. A line
	 * there has no name in front; its usage is object_usage.
	 */
	enum object_type object;
	const char *object_usage;
	bool managed;	  /* only in folders of managed memory */
	bool opens_files; /* that lines name: command.foreign is set */

	/* Starts one line; see command.h. */
	void (*run)(struct command *command);

	/* Appends the answer about the object made by the line. NULL: no answer. */
	int (*answer)(struct broker *broker, struct token token, struct text *text);

	/*
	 * Prints the text for a fresh read of the object's own file, as done's bytes.
	 * NULL: prints the usage.
	 */
	void (*state)(struct broker *broker, struct token token,
		      const struct caller *caller, struct completion *wait);
};

/* The usage of a line in control/NAME, or in the file of the object with the token. */
static inline const char *verb_usage(const struct verb *verb, struct token token)
{
	return token.generation ? verb->object_usage : verb->usage;
}

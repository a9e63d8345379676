/* SPDX-License-Identifier: MIT */
/* The tables of `gpumem ls` and `gpumem top`. */
#pragma once

#include "command.h"
#include "mount.h"
#include "programs.h"
#include "table.h"

struct screen {
	enum style style;
	size_t width; /* in columns; 0: of the terminal */
	bool colors;
	const char *user; /* NULL: all */
	int gpu;	  /* negative: all */
	const char *sort;
	bool recursive;		   /* shows allocations in folders, and not the folders */
	bool folders;		   /* shows a table of the folders */
	struct programs *programs; /* NULL: not shown; the caller's */
};

/* Takes -u, -g, --sort and --json, and looks at stdout. Returns: an exit status. */
int screen_init(struct screen *screen, const struct call *call,
		const struct mount *mount);

/* Prints the screen of a call once, with these programs, if any. Returns: an exit status.
 */
int list_once(const struct call *call, struct programs *programs);

/* Reads the mount and adds the tables. Returns: 0; -errno, with a sentence in `why`. */
int screen_print(const struct screen *screen, const struct mount *mount,
		 struct text *text, struct text *why);

/* SPDX-License-Identifier: MIT */
/* Lines of control files, and how a shell writes them. */
#pragma once

#include "mount.h"

/* Adds a word as a shell reads it. */
void shell_quote(struct text *text, const char *word);

/* Adds `echo LINE >MOUNT/FILE`. */
void shell_line(struct text *text, const struct mount *mount, const char *file,
		const char *line);

/* Adds words with blanks between them. Returns: an exit status, wrong use for a word with
 * a newline. */
int words_join(struct text *line, char **words, int n);

/* Adds words as a line of a control file. Returns: as words_join(), and wrong use for a
 * blank line. */
int line_join(struct text *line, char **words, int n);

/* SPDX-License-Identifier: MIT */
/*
 * The file that keeps limits over restarts. The first broker of a mount reads the file at
 * the start; others have the limits of the one before. When a limit has changed, a
 * process of its own (process/outside.h) writes all limits to a new file in the same
 * folder, and renames the new file to the old one's name.
 */
#pragma once

#include <stddef.h>

struct broker;
struct caller;
struct completion;
struct text;

/*
 * Reads the limits from the file, and keeps them there from now on. The file need not
 * exist; its folder must. Nobody but root may be able to write it.
 *
 * Returns: 0; a negative errno, with a sentence in why that has file and line.
 */
int limits_file_open(struct broker *broker, const char *path, struct text *why);
void limits_file_free(struct broker *broker);

/*
 * Writes the file, from a thread of its own, then answers a write of that length. path:
 * of the limits that changed, for the journal. No lock held.
 */
void limits_file_save(struct broker *broker, const struct caller *caller,
		      const char *path, size_t length, struct completion *wait);

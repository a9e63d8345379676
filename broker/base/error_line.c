/* SPDX-License-Identifier: MIT */
#include "base/error_line.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *sentence_of(const char *line, const char *file, int error)
{
	const char *name = strerrorname_np(error), *at;
	size_t n_path, n_file = strlen(file);
	char pid[32];

	snprintf(pid, sizeof(pid), " pid=%d ", gettid());
	at = strstr(line, pid);
	if (!at || !name)
		return NULL;
	at += strlen(pid);
	n_path = strcspn(at, " ");
	if (n_path < n_file || strncmp(at + n_path - n_file, file, n_file) != 0 ||
	    (n_path > n_file && at[n_path - n_file - 1] != '/'))
		return NULL;
	at += n_path;
	if (*at++ != ' ' || strncmp(at, name, strlen(name)) != 0)
		return NULL;
	at += strlen(name);
	return *at == ' ' ? at + 1 : NULL;
}

bool error_line_find(const char *errors, const char *file, int error,
		     struct text *sentence)
{
	FILE *lines = fopen(errors, "re");
	char line[1024], newest[512] = "";

	while (lines && fgets(line, sizeof(line), lines)) {
		const char *found;

		line[strcspn(line, "\n")] = '\0';
		found = sentence_of(line, file, error);
		if (found)
			snprintf(newest, sizeof(newest), "%s", found);
	}
	if (lines)
		fclose(lines);
	text_printf(sentence, "%s", newest);
	return newest[0];
}

/* SPDX-License-Identifier: MIT */
#include "base/error_line.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/def.h"

/* Only the first words are the broker's own: sentences have words of others in them. */
static const char *behind_pid(const char *line)
{
	int n = 0, pid = 0;

	if (sscanf(line, "%*s uid=%*u pid=%d%n", &pid, &n) < 1)
		(void)sscanf(line, "%*s pid=%d%n", &pid, &n);
	return pid == gettid() && line[n] == ' ' ? line + n + 1 : NULL;
}

static const char *sentence_of(const char *line, const char *file, int error)
{
	const char *name = strerrorname_np(error), *at = behind_pid(line);
	size_t n_path, n_file = strlen(file);

	if (!at || !name)
		return NULL;
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
	_cleanup_free_ char *line = NULL;
	FILE *lines = fopen(errors, "re");
	char newest[512] = "";
	size_t size = 0;

	while (lines && getline(&line, &size, lines) > 0) {
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

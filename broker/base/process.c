/* SPDX-License-Identifier: MIT */
#include "base/process.h"

#include <stdio.h>
#include <string.h>

#define PF_EXITING 0x4 /* a task flag of the kernel, in the ninth field of stat */

/* Reads the start of a file of the process. Returns: false on failure. */
static bool process_read(pid_t pid, const char *file, char *text, size_t size)
{
	char path[64];
	size_t length;
	FILE *stream;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	stream = fopen(path, "re");
	if (!stream)
		return false;
	length = fread(text, 1, size - 1, stream);
	text[length] = '\0';
	fclose(stream);
	return length > 0;
}

pid_t process_of_thread(pid_t thread)
{
	char text[512];
	const char *line;
	int pid;

	if (!process_read(thread, "status", text, sizeof(text)))
		return thread;
	line = strstr(text, "\nTgid:");
	return line && sscanf(line, "\nTgid: %d", &pid) == 1 ? pid : thread;
}

void process_name(pid_t pid, char name[PROCESS_NAME_MAX])
{
	if (!process_read(pid, "comm", name, PROCESS_NAME_MAX))
		strcpy(name, "?");
	name[strcspn(name, "\n")] = '\0';
}

bool process_is_ending(pid_t pid)
{
	char text[512], *behind_name;
	unsigned int flags;

	if (!process_read(pid, "stat", text, sizeof(text)))
		return true;
	behind_name = strrchr(text, ')');
	if (!behind_name ||
	    sscanf(behind_name, ") %*c %*d %*d %*d %*d %*d %u", &flags) != 1)
		return true;
	return flags & PF_EXITING;
}

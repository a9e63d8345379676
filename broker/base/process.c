/* SPDX-License-Identifier: MIT */
#include "base/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/def.h"
#include "base/proc.h"

/* Reads the start of a file of the process. Returns: false on failure. */
static bool process_read(pid_t pid, const char *file, char *text, size_t size)
{
	char path[64];
	size_t length;
	FILE *stream;

	snprintf(path, sizeof(path), "%d/%s", pid, file);
	stream = proc_fopen(path);
	if (!stream)
		return false;
	length = fread(text, 1, size - 1, stream);
	text[length] = '\0';
	fclose(stream);
	return length > 0;
}

pid_t process_of_thread(pid_t thread)
{
	/* For some threads: there may be thousands. */
	_Alignas(struct dirent) char bytes[2 * sizeof(struct dirent)];
	_cleanup_close_ int fd = -1;
	char path[64];
	ssize_t n;

	/*
	 * The first thread of a process has the process's number, and Linux lists it
	 * first. `status` has the number, too, but behind a text of all groups of the
	 * user, which may take milliseconds to make.
	 */
	snprintf(path, sizeof(path), "%d/task", thread);
	fd = proc_open(path, O_RDONLY | O_DIRECTORY);
	n = fd >= 0 ? getdents64(fd, bytes, sizeof(bytes)) : -1;
	for (ssize_t at = 0; at < n;) {
		const struct dirent *entry = (const void *)(bytes + at);

		if (entry->d_name[0] != '.')
			return (pid_t)strtol(entry->d_name, NULL, 10);
		at += entry->d_reclen;
	}
	return thread;
}

void process_name(pid_t pid, char name[PROCESS_NAME_MAX])
{
	if (!process_read(pid, "comm", name, PROCESS_NAME_MAX))
		strcpy(name, "?");
	name[strcspn(name, "\n")] = '\0';
}

bool process_has_ended(int pidfd)
{
	struct pollfd end = { .fd = pidfd, .events = POLLIN };

	return poll(&end, 1, 0) > 0;
}

/* Linux counts 667 for a process with little memory, and 0 for one without any. */
bool process_is_ending(pid_t pid)
{
	char score[16];

	return !process_read(pid, "oom_score", score, sizeof(score)) ||
	       strtol(score, NULL, 10) == 0;
}

struct process_identity process_identity(pid_t thread)
{
	_cleanup_close_ int fd = -1;
	struct stat stat;
	char path[16];

	snprintf(path, sizeof(path), "%d", thread);
	fd = proc_open(path, O_PATH | O_DIRECTORY);
	if (fd < 0 || fstat(fd, &stat) < 0)
		return (struct process_identity){ 0 };
	return (struct process_identity){ process_of_thread(thread), stat.st_uid };
}

/* Returns: false if this process may not see the link. */
static bool process_link(char text[256], pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "%d/%s", pid, name);
	return proc_readlink(path, text, 256);
}

bool process_sees_our_files(pid_t thread)
{
	static const char *const names[] = { "ns/mnt", "root" };
	char theirs[256], ours[256];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!process_link(theirs, thread, names[i]) ||
		    !process_link(ours, getpid(), names[i]) || strcmp(theirs, ours) != 0)
			return false;
	}
	return true;
}

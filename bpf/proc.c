/* SPDX-License-Identifier: MIT */
#include "proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

pid_t proc_parent(pid_t pid, char ret_name[PROC_NAME_SIZE])
{
	char path[64], line[512];
	int parent = 0;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return 0;
	if (fgets(line, sizeof line, file)) {
		char *open = strchr(line, '('), *close = strrchr(line, ')');

		if (open && close && sscanf(close + 1, " %*c %d", &parent) == 1)
			snprintf(ret_name, PROC_NAME_SIZE, "%.*s",
				 (int)(close - open - 1), open + 1);
	}
	fclose(file);
	return parent;
}

bool proc_uid(pid_t pid, uid_t *ret_uid)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	if (stat(path, &st))
		return false;
	*ret_uid = st.st_uid;
	return true;
}

static int open_range(const char *pid, const char *range)
{
	char path[96];
	int fd;

	snprintf(path, sizeof path, "/proc/%s/map_files/%s", pid, range);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int open_name(const char *pid, const char *name)
{
	char path[4300];

	snprintf(path, sizeof path, "/proc/%s/root%s", pid, name);
	_cleanup_close_ int at = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	if (at < 0 || fstat(at, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOEXEC;
	snprintf(path, sizeof path, "/proc/self/fd/%d", at);
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int proc_open_mapped(const char *pid, const char *range, const char *name)
{
	int fd = range ? open_range(pid, range) : -EPERM;

	return fd == -EPERM || fd == -EACCES || fd == -ENOENT ? open_name(pid, name) : fd;
}

#define WORKER "gpumem-" /* a worker's name begins so; a uid or `mover` follows */

bool proc_is_worker(const char *name)
{
	return !strncmp(name, WORKER, strlen(WORKER));
}

pid_t proc_worker_broker(pid_t pid)
{
	char name[PROC_NAME_SIZE] = "";
	pid_t parent = proc_parent(pid, name);

	return proc_is_worker(name) ? parent : 0;
}

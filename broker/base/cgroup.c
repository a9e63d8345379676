/* SPDX-License-Identifier: MIT */
#include "base/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/def.h"
#include "base/proc.h"
#include "base/text.h"

#define UNIFIED "0::/" /* of the line of version 2 in /proc/PID/cgroup */

int cgroup_of(pid_t thread, char path[CGROUP_PATH_MAX])
{
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	int r = -ENOENT;
	char file[64];
	FILE *stream;

	snprintf(file, sizeof(file), "%d/cgroup", thread);
	stream = proc_fopen(file);
	if (!stream)
		return -ENOENT;
	while (r < 0 && getline(&line, &size, stream) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, UNIFIED, strlen(UNIFIED)) == 0 &&
		    strlen(line) - strlen(UNIFIED) + 1 < CGROUP_PATH_MAX) {
			strcpy(path, line + strlen(UNIFIED) - 1);
			r = 0;
		}
	}
	fclose(stream);
	return r;
}

bool cgroup_is_within(const char *path, const char *other)
{
	size_t length = strlen(other);

	while (length && other[length - 1] == '/')
		length--;
	return strncmp(path, other, length) == 0 &&
	       (path[length] == '/' || !path[length]);
}

/*
 * The file of the cgroup in the file system of this line of mountinfo: ID PARENT DEVICE
 * ROOT MOUNTPOINT OPTIONS... - TYPE ... Returns: false when it does not show the cgroup.
 */
static bool find_in_mount(char *line, const char *path, char file[CGROUP_FILE_MAX])
{
	char *words[5], *rest = line;

	if (!strstr(line, " - cgroup2 "))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		words[i] = strsep(&rest, " ");
		if (!rest)
			return false;
	}
	string_unescape(words[3]);
	string_unescape(words[4]);
	if (!cgroup_is_within(path, words[3]))
		return false;
	if (strcmp(words[3], "/") != 0)
		path += strlen(words[3]);
	return snprintf(file, (size_t)CGROUP_FILE_MAX, "%s%s/cgroup.events", words[4],
			path) < CGROUP_FILE_MAX;
}

int cgroup_file(const char *path, char file[CGROUP_FILE_MAX])
{
	_cleanup_free_ char *line = NULL;
	bool found = false;
	size_t size = 0;
	FILE *stream;

	stream = proc_fopen("self/mountinfo");
	if (!stream)
		return -EOPNOTSUPP;
	while (!found && getline(&line, &size, stream) > 0)
		found = find_in_mount(line, path, file);
	fclose(stream);
	return found ? 0 : -EOPNOTSUPP;
}

int cgroup_open_known(const char *file)
{
	struct open_how how = {
		.flags = O_RDONLY | O_CLOEXEC,
		.resolve = RESOLVE_CACHED,
	};
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, file, &how, sizeof(how));

	if (fd >= 0)
		return fd;
	/* before Linux 5.12 */
	return errno == EINVAL || errno == ENOSYS ? -EAGAIN : -errno;
}

/*
 * A cgroup that was removed and made again under the same name is another one. The thread
 * is in the cgroup of that name after the file was opened; if the file is of a cgroup
 * that was removed before, it can't be read.
 */
bool cgroup_has(int fd, pid_t thread, const char *path)
{
	char now[CGROUP_PATH_MAX];

	return cgroup_of(thread, now) == 0 && strcmp(now, path) == 0 &&
	       !cgroup_is_over(fd);
}

bool cgroup_is_over(int fd)
{
	char text[256];
	ssize_t length = pread(fd, text, sizeof(text) - 1, 0);

	if (length < 0)
		return errno == ENODEV;
	text[length] = '\0';
	return strstr(text, "populated 0");
}

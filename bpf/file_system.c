/* SPDX-License-Identifier: MIT */
#include "file_system.h"

#include "base/def.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* Whether the process is in the user namespace of this one. */
static bool is_in_our_users(const char *pid)
{
	struct stat own, other;
	char path[64];

	snprintf(path, sizeof path, "/proc/%s/ns/user", pid);
	return !stat("/proc/self/ns/user", &own) && !stat(path, &other) &&
	       own.st_ino == other.st_ino && own.st_dev == other.st_dev;
}

/* Whether the process has the mount, of such a file system. */
static bool has_mount(const char *pid, uint64_t mount, const char *type)
{
	_cleanup_free_ char *line = NULL;
	char path[64], word[64];
	bool found = false;
	size_t size = 0;
	uint64_t id;
	FILE *table;

	snprintf(path, sizeof path, "/proc/%s/mountinfo", pid);
	snprintf(word, sizeof word, " - %s ", type);
	table = fopen(path, "re");
	if (!table)
		return false;
	while (!found && getline(&line, &size, table) > 0)
		found = sscanf(line, "%" SCNu64, &id) == 1 && id == mount &&
			strstr(line, word);
	fclose(table);
	return found;
}

/* Only root mounts in our user namespace, but for FUSE by fusermount3. */
static bool is_mounted_by_root(int fd, const char *pid, const char *type)
{
	struct statx stat;

	return !statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &stat) &&
	       stat.stx_mask & STATX_MNT_ID && is_in_our_users(pid) &&
	       has_mount(pid, stat.stx_mnt_id, type);
}

bool file_system_is_of_user(int fd, const char *pid)
{
	struct statfs stat;

	if (fstatfs(fd, &stat))
		return true;
	if (stat.f_type == OVERLAYFS_SUPER_MAGIC)
		return !is_mounted_by_root(fd, pid, "overlay");
	/* virtiofs is the host's, and has the number of FUSE. */
	return stat.f_type == FUSE_SUPER_MAGIC &&
	       !is_mounted_by_root(fd, pid, "virtiofs");
}

/* SPDX-License-Identifier: MIT */
/*
 * Control groups, version 2. A path is as in /proc/PID/cgroup, seen from this process:
 * `/` is the root, or the root of this process's cgroup namespace.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#define CGROUP_PATH_MAX 4096

/* The cgroup of a thread. Returns: 0; -ENOENT: it has none, or can't be seen. */
int cgroup_of(pid_t thread, char path[CGROUP_PATH_MAX]);

/* Whether the cgroup is the other, or below it. */
bool cgroup_is_within(const char *path, const char *other);

#define CGROUP_FILE_MAX (2 * CGROUP_PATH_MAX)

/*
 * The path of the cgroup's file to open for cgroup_is_over(). EPOLLPRI on a descriptor of
 * the file says that the answer may have changed. Returns: 0; -EOPNOTSUPP where no file
 * system of type cgroup2 shows the cgroup.
 */
int cgroup_file(const char *path, char file[CGROUP_FILE_MAX]);

/*
 * Opens the file if the kernel remembers where it is, and waits for no folder's lock.
 * Returns: a descriptor, owned by the caller; -EAGAIN: the kernel has to look; -errno.
 */
int cgroup_open_known(const char *file);

/* Whether the file is open for the cgroup that the thread is in. */
bool cgroup_has(int fd, pid_t thread, const char *path);

/* Whether the cgroup is gone, or has no process, nor any below it. */
bool cgroup_is_over(int fd);

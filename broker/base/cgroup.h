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

/*
 * Opens the cgroup of a thread, to ask cgroup_is_over(). The caller keeps the thread from
 * ending meanwhile. EPOLLPRI on the descriptor says that the answer may have changed.
 *
 * Returns: a descriptor, owned by the caller; -EOPNOTSUPP where no file system of type
 * cgroup2 shows the path; -ESTALE when the thread has left the cgroup; -errno of open.
 */
int cgroup_open(pid_t thread, const char *path);

/* Whether the cgroup is gone, or has no process, nor any below it. */
bool cgroup_is_over(int fd);

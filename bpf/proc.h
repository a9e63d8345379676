/* SPDX-License-Identifier: MIT */
/*
 * Facts about processes from /proc.
 */
#pragma once

#include "base/def.h"

#include <sys/types.h>

#define PROC_NAME_SIZE 32

/* The parent of a process, and the process's own name. Returns: 0 without such a
 * process. */
pid_t proc_parent(pid_t pid, char ret_name[PROC_NAME_SIZE]);

/* The user of a process. Returns: false without such a process. */
bool proc_uid(pid_t pid, uid_t *ret_uid);

/*
 * Opens a file that a process has mapped: by range of addresses, as in its maps, or
 * (NULL, or where that isn't allowed) by path as the process sees it. The process may be
 * a hostile user's: a FIFO, a device or a link in the place of the file is refused, and
 * no lease on the file is waited for (fcntl(2), F_SETLEASE). Returns: a descriptor;
 * -errno.
 */
int proc_open_mapped(const char *pid, const char *range, const char *name);

/* Whether a process's name is a worker's. */
bool proc_is_worker(const char *name);

/* The broker of a worker: the parent. Returns: 0 for another process. */
pid_t proc_worker_broker(pid_t pid);

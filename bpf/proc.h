/* SPDX-License-Identifier: MIT */
/*
 * Facts about processes from /proc.
 */
#pragma once

#include "base/def.h"
#include "maps.h"

#include <sys/types.h>

#define PROC_NAME_SIZE 32

/* The parent of a process, and the process's own name. Returns: 0 without such a
 * process. */
pid_t proc_parent(pid_t pid, char ret_name[PROC_NAME_SIZE]);

/* The user of a process. Returns: false without such a process. */
bool proc_uid(pid_t pid, uid_t *ret_uid);

/* The user who started the process: proc_uid() says root for a set-user-ID program of
 * root's. Returns: false for an ended process. */
bool proc_real_uid(pid_t pid, uid_t *ret_uid);

/*
 * Opens a regular file whose path may be a hostile user's choice: a FIFO or a device is
 * not opened, and no lease on the file is waited for (fcntl(2), F_SETLEASE). O_NOFOLLOW
 * in flags refuses a symbolic link, too.
 *
 * Returns: a descriptor; -ENOEXEC for another kind of file; -errno.
 */
int proc_open_file(const char *path, int flags);

/*
 * Opens the file of a mapping, as proc_open_file(), by the addresses of the mapping.
 * Where the kernel doesn't allow that, opens the path as the process sees it.
 *
 * Returns: a descriptor; -ESTALE for another file in its place; -errno.
 */
int proc_open_mapped(const char *pid, const struct mapping *mapping);

/* Whether a process's name is a worker's. */
bool proc_is_worker(const char *name);

/* The broker of a worker: the parent. Returns: 0 for another process. */
pid_t proc_worker_broker(pid_t pid);

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

/* Whether a process's name is a worker's. */
bool proc_is_worker(const char *name);

/* The broker of a worker: the parent. Returns: 0 for another process. */
pid_t proc_worker_broker(pid_t pid);

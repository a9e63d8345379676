/* SPDX-License-Identifier: MIT */
/*
 * What /proc says of a process.
 */
#pragma once

#include "base/def.h"

#include <sys/types.h>

#define PROC_NAME_SIZE 32

/* The parent of a process, and the process's own name. Returns: 0 if there is none. */
pid_t proc_parent(pid_t pid, char ret_name[PROC_NAME_SIZE]);

/* The user that a process runs as. Returns: false if there is no such process. */
bool proc_uid(pid_t pid, uid_t *ret_uid);

/* Whether a process of that name is a broker's worker. */
bool proc_is_worker(const char *name);

/* The broker of a worker: its parent. Returns: 0 for another process. */
pid_t proc_worker_broker(pid_t pid);

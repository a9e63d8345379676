/* SPDX-License-Identifier: MIT */
/*
 * What /proc says of a process.
 */
#pragma once

#include <sys/types.h>

#define PROC_NAME_SIZE 32

/* The parent of a process, and the process's own name. Returns: 0 if there is none. */
pid_t proc_parent(pid_t pid, char ret_name[PROC_NAME_SIZE]);

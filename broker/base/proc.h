/* SPDX-License-Identifier: MIT */
/*
 * Files of /proc, in an instance of procfs that only this process has. Users can put
 * millions of locks (fcntl(2)) on the files of their processes, and each close(2) of such
 * a file looks at all of them. And one user can keep the lock of a folder there, of /proc
 * itself, too: whoever looks up a name waits. Other instances have files and folders of
 * their own.
 *
 * Without CAP_SYS_ADMIN, and before Linux 5.8, the files are those of /proc.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* path: below /proc. Return: a descriptor, -1 with errno; a stream, NULL with errno. */
int proc_open(const char *path, int flags);
FILE *proc_fopen(const char *path);

/* As readlink(2), and ends the text; "" with an error. Returns: whether it has a text. */
bool proc_readlink(const char *path, char *text, size_t size);

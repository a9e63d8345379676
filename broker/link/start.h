/* SPDX-License-Identifier: MIT */
/* Starting a worker program with its two descriptors and nothing else of the broker's. */
#pragma once

#include <sys/types.h>

#include "link/link.h"

/*
 * Starts the worker that config describes, with socket as WIRE_SOCKET_FD. It is a child
 * of the calling thread, whose end ends it. Both descriptors stay the caller's.
 *
 * Returns: 0; -ENOENT, -EACCES, -ENOEXEC and whatever else execve answers; -ENOMEM,
 * -EMFILE, -EAGAIN.
 */
int start_worker(const struct link_config *config, int socket, pid_t *ret_pid);

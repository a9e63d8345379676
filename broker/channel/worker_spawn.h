/* SPDX-License-Identifier: MIT */
/* Starting a worker program with its descriptors and nothing else of the broker's. */
#pragma once

#include <sys/types.h>

#include "channel/channel.h"

/*
 * Starts the worker that config describes, with socket as WIRE_SOCKET_FD and urgent as
 * WIRE_URGENT_FD. It is a child of the calling thread, whose end ends it. All descriptors
 * stay the caller's.
 *
 * Returns: 0; -ENOENT, -EACCES, -ENOEXEC and whatever else execve answers; -ENOMEM,
 * -EMFILE, -EAGAIN.
 */
int start_worker(const struct link_config *config, int socket, int urgent,
		 pid_t *ret_pid);

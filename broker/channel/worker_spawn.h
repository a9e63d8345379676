/* SPDX-License-Identifier: MIT */
/* Starts a worker program with its descriptors and nothing else of the broker. */
#pragma once

#include <sys/types.h>

struct channel_config;

/*
 * Starts the worker of config, with socket as WIRE_SOCKET_FD and urgent as
 * WIRE_URGENT_FD. The worker is a child of this process and ends with the spawner
 * (config->spawner). All descriptors remain the caller's.
 *
 * Returns: 0; -ENOENT, -EACCES, -ENOEXEC and other errors of execve; -ENOMEM, -EMFILE,
 * -EAGAIN.
 */
int worker_spawn(const struct channel_config *config, int socket, int urgent,
		 pid_t *ret_pid);

/* SPDX-License-Identifier: MIT */
#include "worker/outside.h"

#include <errno.h>
#include <fcntl.h>
#include <gpumem/wire.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/descriptor.h"

_Noreturn void outside_run(const char *path)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC), error = fd < 0 ? errno : 0;

	_exit(descriptor_send(WIRE_SOCKET_FD, &error, sizeof(error), fd) < 0
		      ? EXIT_FAILURE
		      : EXIT_SUCCESS);
}

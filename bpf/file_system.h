/* SPDX-License-Identifier: MIT */
/*
 * File systems that any user can mount and serve.
 *
 * A probe makes Linux read a page of the file, with a lock held that each fork(2) of the
 * machine takes. Whoever serves the file keeps everybody waiting, and no signal ends the
 * wait. This is FUSE, and overlayfs over FUSE in a user namespace.
 */
#pragma once

#include <stdbool.h>

/* Whether a user may serve the open file, which the process has mapped. */
bool file_system_is_of_user(int fd, const char *pid);

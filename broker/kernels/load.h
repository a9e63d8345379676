/* SPDX-License-Identifier: MIT */
/* Loading a module: from an image that is there to functions that can be launched. */
#pragma once

#include "base/wait.h"
#include "model/access.h"
#include "model/object.h"

struct broker;

/*
 * Checks the image and has it loaded in the worker of the module's owner. fd is a memfd
 * of size bytes that nobody writes any more; it is taken. The caller is who closed it.
 * Errors: see upload_flush().
 */
void load_start(struct broker *broker, struct token module, const struct caller *caller,
		int fd, uint64_t size, struct wait *wait);

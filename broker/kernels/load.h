/* SPDX-License-Identifier: MIT */
/* Loads a module: from a complete image to functions ready for launches. */
#pragma once

#include <stdint.h>

struct broker;
struct caller;
struct completion;
struct token;

/*
 * Checks the image and loads it in the worker of the module's owner. fd is a memfd of
 * size bytes without writers; the function takes it. caller closed the file. Errors: see
 * upload_flush().
 */
void load_start(struct broker *broker, struct token module, const struct caller *caller,
		int fd, uint64_t size, struct completion *wait);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>

/* Gives a message to all registered callbacks. Not under the library's lock. */
void logs_add(const char *text, size_t length);

/* SPDX-License-Identifier: MIT */
/* Numbers for people. */
#pragma once

#include "base/def.h"

#include <linux/types.h>
#include <stdio.h>

/* 1536 as "1.5K", for a screen. */
void format_size(uint64_t bytes, char ret_text[16]);

/*
 * A histogram whose slot N counts 2^N up to 2^(N+1)-1, from its first slot that is used
 * to its last; nothing if none is.
 */
void format_histogram(FILE *file, const char *what, const __u64 *slots, size_t n);

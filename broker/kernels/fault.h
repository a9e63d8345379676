/* SPDX-License-Identifier: MIT */
/*
 * The driver's words about a kernel's fault, as a part of a sentence. Where they name an
 * address, the allocation next to it is named, too.
 */
#pragma once

#include <stdbool.h>

struct launch;
struct text;

/*
 * Appends `: WORDS` to the sentence of a launch that failed. words comes from the worker
 * and is not trusted; NULL: the driver said nothing. alone: no other kernel was running.
 * Takes registry.lock.
 */
void text_add_fault(struct text *text, const struct launch *launch, bool alone,
		    const char *words);

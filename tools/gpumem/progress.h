/* SPDX-License-Identifier: MIT */
/*
 * Copies bytes between descriptors, with a bar on a terminal's stderr.
 */
#pragma once

#include "base/text.h"

struct transfer {
	const char *name; /* shown */
	int from, to;
	uint64_t size;
	const char *from_name, *to_name; /* for sentences */
};

/*
 * Copies `size` bytes. Returns: 0; -EINTR when the user has stopped it; -errno, with a
 * sentence in `why`.
 */
int transfer_run(const struct transfer *transfer, struct text *why);

/* SPDX-License-Identifier: MIT */
/*
 * The processes of -p: that they are there, and when the last of them has ended.
 */
#pragma once

#include "options.h"

struct watch {
	int fds[PIDS_MAX];
	size_t n; /* that live */
};

/* Returns: 0; -ESRCH, or another -errno, with a sentence in `why`. watch_deinit() is due
 * in any case. */
int watch_init(struct watch *watch, const struct options *options, struct text *why);
void watch_deinit(struct watch *watch);

/* Returns: whether there were some to watch, of which none is left since the last time.
 */
bool watch_is_over(struct watch *watch);

/* SPDX-License-Identifier: MIT */
/*
 * The processes of --pid: whether they exist, and when the last has ended.
 */
#pragma once

#include "options.h"

struct watch {
	int fds[PIDS_MAX];
	size_t n; /* still running */
};

/* Returns: 0; -ESRCH, or another -errno, with a sentence in `why`. watch_deinit() is due
 * in any case. */
int watch_init(struct watch *watch, const struct options *options, struct text *why);
void watch_deinit(struct watch *watch);

/* Returns: whether the last watched process has ended since the last call. */
bool watch_is_over(struct watch *watch);

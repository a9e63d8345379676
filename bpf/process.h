/* SPDX-License-Identifier: MIT */
/*
 * The maps of the BPF programs, read while they run: processes, the ledger, what was
 * lost.
 */
#pragma once

#include "output.h"

/* Follow this process and its descendants. Takes a struct probes. Returns: 0; -1, with
 * errno. */
int process_follow_me(void *probes);

struct process_row {
	__u64 id;
	struct process process;
};

/* Those that live and those that have ended, where the output keeps them. The caller
 * frees the list. Returns: 0; -errno. */
int processes_read(const struct tracer *tracer, struct process_row **ret_rows,
		   size_t *ret_n);

/*
 * Takes processes that have ended out of the maps, and what they held when they did. The
 * output is told of it first, and keeps the process's totals if it wants them.
 */
void processes_bury(struct tracer *tracer);

/* Whether a process ran before the tool started, so that not all it holds is known. */
bool process_is_early(const struct tracer *tracer, const struct process *process);

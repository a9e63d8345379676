/* SPDX-License-Identifier: MIT */
/*
 * The map of processes, read while the BPF programs run.
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

/* All living processes, and ended processes if the mode keeps them. The caller frees the
 * list. Returns: 0; -errno. */
int processes_read(const struct tracer *tracer, struct process_row **ret_rows,
		   size_t *ret_n);

/*
 * Takes ended processes and their memory out of the maps. The mode is told first, and the
 * totals of ended processes are kept for a mode with keeps_ended.
 */
void processes_bury(struct tracer *tracer);

/* Whether a process ran before the tool started: then some memory is unknown. */
bool process_is_early(const struct tracer *tracer, const struct process *process);

/* SPDX-License-Identifier: MIT */
#include "lost.h"

#include "trace.skel.h"

#include <bpf/libbpf.h>
#include <inttypes.h>
#include <stdio.h>

static uint64_t lost_count(const struct tracer *tracer, enum lost what)
{
	int n_cpus = libbpf_num_possible_cpus();
	__u32 key = what;
	uint64_t sum = 0;

	if (n_cpus <= 0)
		return 0;
	_cleanup_free_ __u64 *values = calloc((size_t)n_cpus, sizeof *values);
	if (!values ||
	    bpf_map__lookup_elem(tracer->probes.bpf->maps.lost, &key, sizeof key, values,
				 (size_t)n_cpus * sizeof *values, 0))
		return 0;
	for (int i = 0; i < n_cpus; i++)
		sum += values[i];
	return sum;
}

void lost_say(const struct tracer *tracer)
{
	static const char *const what[N_LOST] = {
		[LOST_EVENTS] = "events had no room in the ring buffer: their lines are "
				"missing, the totals are right",
		[LOST_ENTRIES] = "allocations had no room in the ledger: what is held is "
				 "more than what is shown",
		[LOST_PROCESSES] = "calls were of more processes than there is room for",
		[LOST_STACKS] = "stacks could not be kept",
		[LOST_CALLS] = "calls could not be followed to their return",
	};

	for (size_t i = 0; i < N_LOST; i++) {
		uint64_t n = lost_count(tracer, (enum lost)i);

		if (n)
			fprintf(stderr, "gpumem-trace: %" PRIu64 " %s\n", n, what[i]);
	}
}

const char *lost_name(enum lost what)
{
	static const char *const names[N_LOST] = {
		[LOST_EVENTS] = "events",	[LOST_ENTRIES] = "entries",
		[LOST_PROCESSES] = "processes", [LOST_STACKS] = "stacks",
		[LOST_CALLS] = "calls",
	};

	return names[what];
}

void lost_tell(struct tracer *tracer)
{
	if (!tracer->output->lost)
		return;
	for (size_t i = 0; i < N_LOST; i++) {
		uint64_t n = lost_count(tracer, (enum lost)i);

		if (n > tracer->lost[i])
			tracer->output->lost(tracer, (enum lost)i, n - tracer->lost[i]);
		tracer->lost[i] = n;
	}
}

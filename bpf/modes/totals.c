/* SPDX-License-Identifier: MIT */
#include "modes/totals.h"

#include "trace.skel.h"

#include <bpf/libbpf.h>
#include <errno.h>

/* All numbers of a call_stat have the same type, so that sums and differences are
 * loops. */
#define STAT_NUMBERS (sizeof(struct call_stat) / sizeof(__u64))

static void stat_add(struct call_stat *sum, const struct call_stat *one)
{
	__u64 *to = (__u64 *)sum;
	const __u64 *from = (const __u64 *)one;

	for (size_t i = 0; i < STAT_NUMBERS; i++)
		to[i] += from[i];
}

static int read_stats(const struct tracer *tracer, struct totals *totals)
{
	int n_cpus = libbpf_num_possible_cpus();
	if (n_cpus <= 0)
		return -EIO;
	size_t size = (size_t)n_cpus * sizeof(struct call_stat);
	_cleanup_free_ struct call_stat *stats = malloc(size);
	if (!stats)
		return -ENOMEM;
	for (__u32 call = 0; call < N_CALLS; call++) {
		int error = bpf_map__lookup_elem(tracer->probes.bpf->maps.stats, &call,
						 sizeof call, stats, size, 0);

		if (error)
			return error;
		for (int cpu = 0; cpu < n_cpus; cpu++)
			stat_add(&totals->calls[call], &stats[cpu]);
		for (size_t i = 0; i < N_LATENCIES; i++)
			totals->calls[call].calls += totals->calls[call].latency[i];
	}
	return 0;
}

static int read_failures(const struct tracer *tracer, struct totals *totals)
{
	const struct bpf_map *map = tracer->probes.bpf->maps.results;
	struct result_key key, *previous = NULL;

	while (!bpf_map__get_next_key(map, previous, &key, sizeof key)) {
		__u64 n = 0;

		previous = &key;
		if (bpf_map__lookup_elem(map, &key, sizeof key, &n, sizeof n, 0) || !n ||
		    key.call >= N_CALLS)
			continue;
		struct failure *list = realloc(totals->failures,
					       (totals->n_failures + 1) * sizeof *list);
		if (!list)
			return -ENOMEM;
		totals->failures = list;
		list[totals->n_failures++] = (struct failure){ key.call, key.result, n };
	}
	return 0;
}

int totals_read(const struct tracer *tracer, struct totals *ret_totals)
{
	*ret_totals = (struct totals){ 0 };
	int error = read_stats(tracer, ret_totals);
	if (!error)
		error = read_failures(tracer, ret_totals);
	if (error)
		totals_deinit(ret_totals);
	return error;
}

void totals_deinit(struct totals *totals)
{
	free(totals->failures);
	totals->failures = NULL;
	totals->n_failures = 0;
}

/* The number of failures of a call with a result. */
static uint64_t totals_failures(const struct totals *totals, enum call_id call,
				int result)
{
	for (size_t i = 0; i < totals->n_failures; i++)
		if (totals->failures[i].call == call &&
		    totals->failures[i].result == result)
			return totals->failures[i].n;
	return 0;
}

void totals_subtract(struct totals *now, const struct totals *before)
{
	for (size_t call = 0; call < N_CALLS; call++) {
		__u64 *to = (__u64 *)&now->calls[call];
		const __u64 *from = (const __u64 *)&before->calls[call];

		for (size_t i = 0; i < STAT_NUMBERS; i++)
			to[i] -= from[i];
	}
	for (size_t i = 0; i < now->n_failures; i++) {
		struct failure *failure = &now->failures[i];

		failure->n -= totals_failures(before, (enum call_id)failure->call,
					      failure->result);
	}
}

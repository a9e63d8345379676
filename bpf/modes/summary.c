/* SPDX-License-Identifier: MIT */
/*
 * --summary: totals of each call, then of each process. With an interval, totals of the
 * time since the last. All numbers are counted in the kernel, so lost events change no
 * number.
 */
#include "format.h"
#include "modes/table.h"
#include "modes/totals.h"
#include "output.h"

#include "cuda/result.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

struct summary {
	struct totals before; /* at the last interval */
};

static int compare_time(const void *a, const void *b, void *data)
{
	const struct totals *totals = data;
	uint64_t x = totals->calls[*(const size_t *)a].time,
		 y = totals->calls[*(const size_t *)b].time;

	return (x < y) - (x > y);
}

static void print_call(const struct totals *totals, enum call_id call)
{
	const struct call_stat *stat = &totals->calls[call];

	printf("%-34s %10" PRIu64 " %8" PRIu64 " %16" PRIu64 " %12.3f %10.1f\n",
	       calls_table[call].symbol, (uint64_t)stat->calls, (uint64_t)stat->failures,
	       (uint64_t)stat->bytes, (double)stat->time / 1e6,
	       (double)stat->time / (double)stat->calls / 1e3);
	for (size_t i = 0; i < totals->n_failures; i++)
		if (totals->failures[i].call == call && totals->failures[i].n)
			printf("    %-41s %8" PRIu64 "\n",
			       cuda_result_name(totals->failures[i].result),
			       totals->failures[i].n);
}

static void print_histograms(const struct totals *totals, const size_t *order, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct call_stat *stat = &totals->calls[order[i]];

		printf("\n%s\n", calls_table[order[i]].symbol);
		format_histogram(stdout, "nanoseconds", stat->latency, N_LATENCIES);
		format_histogram(stdout, "bytes", stat->size, N_SIZES);
	}
}

static void print_calls(const struct totals *totals, bool histograms)
{
	size_t order[N_CALLS], n = 0;

	for (size_t i = 0; i < N_CALLS; i++)
		if (totals->calls[i].calls)
			order[n++] = i;
	if (!n) {
		printf("no calls\n");
		return;
	}
	qsort_r(order, n, sizeof *order, compare_time, (void *)totals);
	printf("%-34s %10s %8s %16s %12s %10s\n", "CALL", "CALLS", "FAILED", "BYTES",
	       "TIME(ms)", "AVG(us)");
	for (size_t i = 0; i < n; i++)
		print_call(totals, (enum call_id)order[i]);
	if (histograms)
		print_histograms(totals, order, n);
}

static void print(struct tracer *tracer)
{
	struct summary *summary = tracer->state;
	struct totals now;

	if (totals_read(tracer, &now))
		return;
	struct totals difference = now;
	difference.failures = malloc((now.n_failures + 1) * sizeof *now.failures);
	if (difference.failures) {
		for (size_t i = 0; i < now.n_failures; i++)
			difference.failures[i] = now.failures[i];
		totals_subtract(&difference, &summary->before);
		print_calls(&difference,
			    tracer->options.histograms || !tracer->options.interval_s);
		printf("\n");
		table_print(tracer, stdout, false);
		free(difference.failures);
	}
	totals_deinit(&summary->before);
	summary->before = now;
}

static int begin(struct tracer *tracer, struct text *why)
{
	tracer->state = calloc(1, sizeof(struct summary));
	if (tracer->state)
		return 0;
	text_printf(why, "no memory");
	return -ENOMEM;
}

static void interval(struct tracer *tracer)
{
	print(tracer);
	printf("\n");
}

static void end(struct tracer *tracer)
{
	struct summary *summary = tracer->state;

	print(tracer);
	totals_deinit(&summary->before);
	free(summary);
}

const struct output output_summary = {
	.begin = begin,
	.interval = interval,
	.end = end,
	.keeps_ended = true,
	.wants_counted = true,
};

/* SPDX-License-Identifier: MIT */
/*
 * The default: a line a call.
 */
#include "event.h"
#include "format.h"
#include "modes/totals.h"

#include "cuda/result.h"

#include <inttypes.h>
#include <stdio.h>

static int begin(struct tracer *tracer, struct text *why)
{
	(void)tracer;
	(void)why;
	printf("%-12s %-7s %-7s %-15s %-30s %-24s %10s  %s\n", "TIME(s)", "PID", "TID",
	       "COMM", "CALL", "RESULT", "LAT(us)", "ARGUMENTS");
	return 0;
}

static void print_start(const struct tracer *tracer, const struct record *record)
{
	printf("%-12.6f %-7u %-7u ",
	       (double)((int64_t)(record->time - tracer->start)) / 1e9, record->pid,
	       record->tid);
	format_name(stdout, record->comm, COMM_SIZE, 15);
	putchar(' ');
}

static void print_exit(const struct tracer *tracer, const struct record_exit *record)
{
	print_start(tracer, &record->record);
	printf("%-30s %-24s %10s  freed %u allocation%s, %" PRIu64 " bytes",
	       record->record.call ? "exec" : "exit", "", "", record->record.n_freed,
	       format_plural(record->record.n_freed), (uint64_t)record->record.bytes);
	for (size_t i = 0; i < N_MEMORIES; i++)
		if (record->n_held[i])
			printf(" %s=%" PRIu64, call_memory_name((enum memory)i),
			       (uint64_t)record->held[i]);
	putchar('\n');
}

static void event(struct tracer *tracer, const struct record *record)
{
	struct field fields[FIELDS_MAX];

	if (record->type == RECORD_EXIT) {
		print_exit(tracer, (const struct record_exit *)record);
		return;
	}
	if (record->type == RECORD_HELD)
		return;
	print_start(tracer, record);
	printf("%-30s %-24s %10.1f ", calls_table[record->call].symbol,
	       cuda_result_name(record->result), (double)record->duration / 1e3);
	size_t n = event_fields(tracer, record, fields);
	for (size_t i = 0; i < n; i++) {
		printf(" %s=", fields[i].name);
		format_name(stdout, fields[i].value, sizeof fields[i].value, 0);
	}
	putchar('\n');
	const struct stack *stack = event_stack(tracer, record);
	if (stack)
		format_stack(stdout, stack, 8);
}

/* Totals of calls that were only counted and have no lines. */
static void end(struct tracer *tracer)
{
	struct totals totals;
	bool some = false;

	if (!tracer->wanted.counted || totals_read(tracer, &totals))
		return;
	for (size_t call = 0; call < N_CALLS; call++) {
		const struct call_stat *stat = &totals.calls[call];

		if (!stat->calls ||
		    !(tracer->wanted.counted & GROUP_BIT(calls_table[call].group)))
			continue;
		if (!some)
			printf("\n%-30s %10s %8s %16s %12s\n", "COUNTED", "CALLS",
			       "FAILED", "BYTES", "TIME(ms)");
		some = true;
		printf("%-30s %10" PRIu64 " %8" PRIu64 " %16" PRIu64 " %12.3f\n",
		       calls_table[call].symbol, (uint64_t)stat->calls,
		       (uint64_t)stat->failures, (uint64_t)stat->bytes,
		       (double)stat->time / 1e6);
	}
	totals_deinit(&totals);
}

const struct output output_live = {
	.begin = begin,
	.event = event,
	.end = end,
	.wants_events = true,
	.wants_counted = true,
};

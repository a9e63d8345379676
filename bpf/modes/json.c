/* SPDX-License-Identifier: MIT */
/*
 * --json: an object a line, as in docs/tracing.md.
 */
#include "modes/json.h"

#include "cuda/result.h"
#include "lost.h"
#include "modes/totals.h"
#include "output.h"

#include <inttypes.h>
#include <stdio.h>

void json_string(FILE *file, const char *string, size_t max)
{
	putc('"', file);
	for (size_t i = 0; i < max && string[i]; i++) {
		unsigned char c = (unsigned char)string[i];

		if (c == '"' || c == '\\')
			fprintf(file, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			fprintf(file, "\\u%04x", c);
		else if (c < 0x80)
			putc(c, file);
		else /* the encoding is unknown */
			fprintf(file, "\\u%04x", c);
	}
	putc('"', file);
}

void json_fields(FILE *file, const struct tracer *tracer, const struct record *record)
{
	struct field fields[FIELDS_MAX];
	size_t n = event_fields(tracer, record, fields);

	for (size_t i = 0; i < n; i++) {
		fprintf(file, ",\"%s\":", fields[i].name);
		if (fields[i].is_number)
			fputs(fields[i].value, file);
		else
			json_string(file, fields[i].value, sizeof fields[i].value);
	}
}

void json_stack(FILE *file, const struct stack *stack)
{
	putc('[', file);
	for (size_t i = 0; i < stack->n; i++) {
		if (i)
			putc(',', file);
		json_string(file, stack->frames[i], SIZE_MAX);
	}
	putc(']', file);
}

/* A process number and a time serve both kinds of events. */
static void print_start(const struct tracer *tracer, const struct record *record,
			const char *call)
{
	printf("{\"t\":\"event\",\"ts_ns\":%" PRId64 ",\"pid\":%u,\"tid\":%u,\"comm\":",
	       (int64_t)record->time + tracer->to_wall_ns, record->pid, record->tid);
	json_string(stdout, record->comm, COMM_SIZE);
	printf(",\"call\":\"%s\"", call);
}

static void print_exit(const struct tracer *tracer, const struct record_exit *record)
{
	print_start(tracer, &record->record, record->record.call ? "exec" : "exit");
	printf(",\"freed\":%" PRIu64 ",\"n_freed\":%u", (uint64_t)record->record.bytes,
	       record->record.n_freed);
	for (size_t i = 0; i < N_MEMORIES; i++)
		if (record->n_held[i])
			printf(",\"%s\":%" PRIu64, call_memory_name((enum memory)i),
			       (uint64_t)record->held[i]);
	puts("}");
}

static void event(struct tracer *tracer, const struct record *record)
{
	if (record->type == RECORD_EXIT) {
		print_exit(tracer, (const struct record_exit *)record);
		return;
	}
	if (record->type == RECORD_HELD)
		return;
	print_start(tracer, record, calls_table[record->call].symbol);
	printf(",\"result\":\"%s\",\"duration_ns\":%" PRIu64,
	       cuda_result_name(record->result), (uint64_t)record->duration);
	json_fields(stdout, tracer, record);
	const struct stack *stack = event_stack(tracer, record);
	if (stack) {
		printf(",\"stack\":");
		json_stack(stdout, stack);
	}
	puts("}");
}

static void lost(struct tracer *tracer, enum lost what, uint64_t n)
{
	(void)tracer;
	printf("{\"t\":\"lost\",\"what\":\"%s\",\"n\":%" PRIu64 "}\n", lost_name(what),
	       n);
}

static void end(struct tracer *tracer)
{
	struct totals totals;

	if (totals_read(tracer, &totals))
		return;
	for (size_t call = 0; call < N_CALLS; call++) {
		const struct call_stat *stat = &totals.calls[call];

		if (!stat->calls)
			continue;
		printf("{\"t\":\"summary\",\"call\":\"%s\",\"calls\":%" PRIu64
		       ",\"failures\":%" PRIu64 ",\"bytes\":%" PRIu64
		       ",\"duration_ns\":%" PRIu64 ",\"results\":{",
		       calls_table[call].symbol, (uint64_t)stat->calls,
		       (uint64_t)stat->failures, (uint64_t)stat->bytes,
		       (uint64_t)stat->time);
		const char *comma = "";
		for (size_t i = 0; i < totals.n_failures; i++) {
			if (totals.failures[i].call != call)
				continue;
			printf("%s\"%s\":%" PRIu64, comma,
			       cuda_result_name(totals.failures[i].result),
			       totals.failures[i].n);
			comma = ",";
		}
		puts("}}");
	}
	totals_deinit(&totals);
}

const struct output output_json = {
	.event = event,
	.lost = lost,
	.end = end,
	.wants_events = true,
	.wants_counted = true,
};

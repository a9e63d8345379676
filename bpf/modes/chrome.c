/* SPDX-License-Identifier: MIT */
/*
 * --chrome: the trace event format, which chrome://tracing and Perfetto open. A slice a
 * call on the thread's track; for each process a counter of each kind of memory, from the
 * balances in the records. Times are microseconds with three decimals.
 */
#include "base/clock.h"
#include "base/hash.h"
#include "event.h"
#include "lost.h"
#include "modes/json.h"
#include "output.h"

#include "cuda/result.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A track with a name already. */
struct track {
	__u64 id; /* pid and tid */
	UT_hash_handle hh;
};

struct chrome {
	FILE *file;
	bool some; /* an event stands there already: a comma is due */
	struct track *tracks;
};

static int begin(struct tracer *tracer, struct text *why)
{
	struct chrome *chrome = calloc(1, sizeof *chrome);

	if (chrome)
		chrome->file = fopen(tracer->options.chrome, "we");
	if (!chrome || !chrome->file) {
		int error = errno;

		text_printf(why, "%s: %s", tracer->options.chrome, strerror(error));
		free(chrome);
		return error ? -error : -ENOMEM;
	}
	fprintf(chrome->file, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
	tracer->state = chrome;
	tracer->file = chrome->file; /* the owner from here on */
	return 0;
}

/* The start of an event, up to the first member of its own. */
static void open_event(struct chrome *chrome, const char *phase, __u32 pid, __u32 tid)
{
	fprintf(chrome->file, "%s{\"ph\":\"%s\",\"pid\":%u,\"tid\":%u",
		chrome->some ? ",\n" : "", phase, pid, tid);
	chrome->some = true;
}

static void print_time(const struct chrome *chrome, const struct tracer *tracer,
		       const char *name, uint64_t time)
{
	uint64_t ns = time > tracer->start ? time - tracer->start : 0;

	fprintf(chrome->file, ",\"%s\":%" PRIu64 ".%03" PRIu64, name, ns / 1000,
		ns % 1000);
}

static void name_track(struct chrome *chrome, const struct record *record, __u32 tid,
		       const char *what)
{
	__u64 id = (__u64)record->pid << 32 | tid;
	struct track *track;

	HASH_FIND(hh, chrome->tracks, &id, sizeof id, track);
	if (track)
		return;
	track = calloc(1, sizeof *track);
	if (!track)
		return;
	track->id = id;
	HASH_ADD(hh, chrome->tracks, id, sizeof track->id, track);
	open_event(chrome, "M", record->pid, tid ? tid : record->pid);
	fprintf(chrome->file, ",\"name\":\"%s\",\"args\":{\"name\":", what);
	json_string(chrome->file, record->comm, COMM_SIZE);
	fprintf(chrome->file, "}}");
}

static void print_counter(struct tracer *tracer, __u32 pid, uint64_t time,
			  enum memory memory, uint64_t bytes)
{
	struct chrome *chrome = tracer->state;

	open_event(chrome, "C", pid, pid);
	print_time(chrome, tracer, "ts", time);
	fprintf(chrome->file, ",\"name\":\"%s\",\"args\":{\"bytes\":%" PRIu64 "}}",
		call_memory_name(memory), bytes);
}

static void print_stack(const struct tracer *tracer, const struct record *record)
{
	const struct chrome *chrome = tracer->state;
	const struct stack *stack = event_stack(tracer, record);

	if (!stack)
		return;
	fprintf(chrome->file, ",\"stack\":");
	json_stack(chrome->file, stack);
}

static void print_slice(struct tracer *tracer, const struct record *record)
{
	struct chrome *chrome = tracer->state;

	open_event(chrome, "X", record->pid, record->tid);
	print_time(chrome, tracer, "ts", record->time);
	fprintf(chrome->file, ",\"dur\":%" PRIu64 ".%03" PRIu64,
		(uint64_t)record->duration / 1000, (uint64_t)record->duration % 1000);
	fprintf(chrome->file,
		",\"cat\":\"%s\",\"name\":\"%s\",\"args\":{\"result\":\"%s\"",
		call_group_name(calls_table[record->call].group),
		calls_table[record->call].symbol, cuda_result_name(record->result));
	json_fields(chrome->file, tracer, record);
	print_stack(tracer, record);
	fprintf(chrome->file, "}}");
}

/* The end of a process or of a context: the balance of each kind afterwards. */
static void print_held(struct tracer *tracer, const struct record_exit *exit)
{
	struct chrome *chrome = tracer->state;
	const struct record *record = &exit->record;

	for (size_t i = 0; i < N_MEMORIES; i++)
		if (record->type == RECORD_HELD || exit->n_held[i])
			print_counter(tracer, record->pid, record->time, (enum memory)i,
				      record->type == RECORD_HELD ? exit->held[i] : 0);
	if (record->type == RECORD_HELD)
		return;
	open_event(chrome, "i", record->pid, record->pid);
	print_time(chrome, tracer, "ts", record->time);
	fprintf(chrome->file,
		",\"s\":\"p\",\"name\":\"%s\",\"args\":{\"freed\":%" PRIu64
		",\"n_freed\":%u}}",
		record->call ? "exec" : "exit", (uint64_t)record->bytes, record->n_freed);
}

static void event(struct tracer *tracer, const struct record *record)
{
	struct chrome *chrome = tracer->state;

	name_track(chrome, record, 0, "process_name");
	if (record->type == RECORD_EXIT || record->type == RECORD_HELD) {
		print_held(tracer, (const struct record_exit *)record);
		return;
	}
	name_track(chrome, record, record->tid, "thread_name");
	print_slice(tracer, record);
	if (record->flags & (RECORD_BOOKED | RECORD_FREED) && record->memory < N_MEMORIES)
		print_counter(tracer, record->pid, record->time + record->duration,
			      (enum memory)record->memory, record->held);
}

static void lost(struct tracer *tracer, enum lost what, uint64_t n)
{
	struct chrome *chrome = tracer->state;

	open_event(chrome, "i", 0, 0);
	print_time(chrome, tracer, "ts", clock_ns(CLOCK_MONOTONIC));
	fprintf(chrome->file, ",\"s\":\"g\",\"name\":\"lost %" PRIu64 " %s\"}", n,
		lost_name(what));
}

static void end(struct tracer *tracer)
{
	struct chrome *chrome = tracer->state;
	struct track *track, *next;

	fprintf(chrome->file, "\n]}\n");
	HASH_ITER (hh, chrome->tracks, track, next) {
		HASH_DEL(chrome->tracks, track);
		free(track);
	}
	free(chrome);
}

const struct output output_chrome = {
	.begin = begin,
	.event = event,
	.lost = lost,
	.end = end,
	.wants_events = true,
};

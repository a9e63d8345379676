/* SPDX-License-Identifier: MIT */
/*
 * The files advise and last_prefetch: the driver's own answers about managed memory.
 *
 * The owner's worker is asked range by range: each reply has the values from an offset on
 * and their extent (WIRE_RANGE). The registry's records only say where values may differ;
 * the values come from the driver and may differ within a record. After RUNS_MAX
 * different ranges the rest is shown as `mixed`.
 *
 * The queries are an op that only watches (model/order.h), so a file can be read while a
 * kernel runs on the memory.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/completion.h"
#include "memops/placement_report.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/journal.h"
#include "model/location.h"
#include "model/managed_ranges.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"
#include "op/op.h"
#include "process/broker.h"

#define RUNS_MAX    4096
#define ASK_AT_MOST (MANAGED_RANGES_MAX + RUNS_MAX)

/* From this offset up to the next. */
struct said {
	uint64_t offset;
	uint64_t value; /* of WIRE_RANGE */
};

struct key {
	const char *name;
	uint64_t (*field)(uint64_t value);
	void (*print)(struct text *text, uint64_t field);
};

struct ranges {
	struct op op;
	const char *file;	/* in the allocation's folder */
	const struct key *keys; /* the last has no name */
	unsigned int n_asked;
	uint64_t size;
	uint64_t offset; /* known up to here */
	struct said *runs;
	size_t n_runs;
	struct owner *payer; /* charged for the question */
};

/* ---- the text ---- */

static uint64_t field_read_mostly(uint64_t value)
{
	return value >> 63;
}

static uint64_t field_preferred(uint64_t value)
{
	return WIRE_RANGE_PREFERRED(value);
}

static uint64_t field_accessed_by(uint64_t value)
{
	return WIRE_RANGE_ACCESSED_BY(value);
}

static uint64_t field_prefetched(uint64_t value)
{
	return WIRE_RANGE_PREFETCHED(value);
}

static void print_flag(struct text *text, uint64_t field)
{
	text_printf(text, "%u", (unsigned int)field);
}

static void print_location(struct text *text, uint64_t field)
{
	text_location(text, (uint16_t)field);
}

static void print_set(struct text *text, uint64_t field)
{
	text_locations(text, (uint32_t)field);
}

static const struct key advise_keys[] = {
	{ "read_mostly", field_read_mostly, print_flag },
	{ "preferred_location", field_preferred, print_location },
	{ "accessed_by", field_accessed_by, print_set },
	{ 0 },
};

static const struct key prefetch_keys[] = {
	{ "last_prefetch", field_prefetched, print_location },
	{ 0 },
};

/* The end of the run of equal values of the key, beginning at index i. */
static size_t key_run_end(const struct ranges *ranges, const struct key *key, size_t i)
{
	uint64_t field = key->field(ranges->runs[i].value);

	while (i < ranges->n_runs && key->field(ranges->runs[i].value) == field)
		i++;
	return i;
}

static uint64_t run_offset(const struct ranges *ranges, size_t i)
{
	return i < ranges->n_runs ? ranges->runs[i].offset : ranges->offset;
}

static void print_range(const struct key *key, uint64_t from, uint64_t to,
			struct text *text)
{
	text_printf(text, "%s[%llu+%llu] ", key->name, (unsigned long long)from,
		    (unsigned long long)(to - from));
}

static void print_ranges(const struct ranges *ranges, const struct key *key,
			 struct text *text)
{
	for (size_t i = 0, end; i < ranges->n_runs; i = end) {
		end = key_run_end(ranges, key, i);
		print_range(key, run_offset(ranges, i), run_offset(ranges, end), text);
		key->print(text, key->field(ranges->runs[i].value));
		text_add(text, "\n", 1);
	}
	if (ranges->offset == ranges->size)
		return;
	print_range(key, ranges->offset, ranges->size, text);
	text_printf(text, "mixed\n");
}

static bool key_is_mixed(const struct ranges *ranges, const struct key *key)
{
	return ranges->offset < ranges->size ||
	       key_run_end(ranges, key, 0) < ranges->n_runs;
}

static void ranges_print(const struct ranges *ranges, struct text *text)
{
	/* The file of a single attribute shows only the value. */
	bool single = !ranges->keys[1].name;

	for (const struct key *key = ranges->keys; key->name; key++) {
		if (!single)
			text_printf(text, "%s ", key->name);
		if (key_is_mixed(ranges, key))
			text_printf(text, "mixed");
		else
			key->print(text, key->field(ranges->runs[0].value));
		text_add(text, "\n", 1);
	}
	for (const struct key *key = ranges->keys; key->name; key++) {
		if (key_is_mixed(ranges, key))
			print_ranges(ranges, key, text);
	}
}

/* ---- the op ---- */

static int ranges_add(struct ranges *ranges, uint64_t value)
{
	struct said *runs;

	if (ranges->n_runs && ranges->runs[ranges->n_runs - 1].value == value)
		return 0;
	/* The array is full when its size is a power of two. */
	if ((ranges->n_runs & (ranges->n_runs - 1)) == 0) {
		runs = reallocarray(ranges->runs, MAX(2 * ranges->n_runs, (size_t)1),
				    sizeof(*runs));
		if (!runs)
			return -ENOMEM;
		ranges->runs = runs;
	}
	ranges->runs[ranges->n_runs++] = (struct said){ ranges->offset, value };
	return 0;
}

static enum begun ranges_begin(struct op *op)
{
	const struct ranges *ranges = container_of(op, struct ranges, op);
	const struct allocation *allocation = op->work.uses[0].allocation;
	uint64_t end;

	/* Interrupted. */
	if (!op->completion)
		return OP_OVER;
	(void)managed_find(allocation->managed, ranges->offset, &end);
	op->request.record = (struct wire_request){
		.op = WIRE_RANGE,
		.device = allocation->device,
		.address = allocation->address + ranges->offset,
		.length = end - ranges->offset,
	};
	return OP_RUN;
}

static void ranges_answered(struct op *op, const struct wire_reply *reply)
{
	struct ranges *ranges = container_of(op, struct ranges, op);

	if (ranges_add(ranges, reply->value[0]) < 0) {
		op_fail(op, ENOMEM, "no memory in the broker");
		return;
	}
	ranges->offset += reply->value[1];
	op->n_asked = 0;
	if (ranges->offset == ranges->size || ranges->n_runs == RUNS_MAX ||
	    ++ranges->n_asked == ASK_AT_MOST)
		op_done(op, 0);
	else
		op_start_again(op);
}

static void ranges_describe(const struct op *op, struct text *text)
{
	const struct ranges *ranges = container_of(op, struct ranges, op);

	pthread_mutex_lock(&op->broker->registry->lock);
	text_printf(text, "%s of allocation %s", ranges->file,
		    allocation_name(op->work.uses[0].allocation).text);
	pthread_mutex_unlock(&op->broker->registry->lock);
}

static void ranges_fail(struct broker *broker, const struct caller *caller,
			const char *name, const char *file, int error,
			const char *sentence)
{
	char path[128];

	snprintf(path, sizeof(path), "allocations/%s/%s", name, file);
	journal_fail(broker->journal, caller->uid, caller->pid, path, error, sentence);
}

static void ranges_settle(struct op *op)
{
	share_give(container_of(op, struct ranges, op)->payer, SHARE_QUESTIONS, 1);
}

static void ranges_finish(struct op *op)
{
	struct ranges *ranges = container_of(op, struct ranges, op);
	const struct caller caller = { .uid = op->uid, .pid = op->pid };
	struct completion *wait = op->completion;
	_cleanup_text_ struct text text = TEXT_INIT;

	if (wait && op->error) {
		ranges_fail(op->broker, &caller, op_name(op), ranges->file, op->error,
			    text_string(&op->sentence));
		wait->done(wait, -op->error, NULL, 0);
	} else if (wait) {
		ranges_print(ranges, &text);
		wait->done(wait, text_failed(&text) ? -ENOMEM : 0, text.data,
			   text.length);
	}
	free(ranges->runs);
}

static const struct op_class ranges_class = {
	.what = "placement",
	.describe = ranges_describe,
	.begin = ranges_begin,
	.answered = ranges_answered,
	.settle = ranges_settle,
	.repeatable = true,
	.quiet = true,
};

/* Under registry->lock. Returns: 0; -ENOMEM, -EBUSY, -ESTALE, with a sentence. */
static int ranges_queue(struct op *op, struct allocation *allocation,
			const struct caller *caller, struct op **ready, struct text *why)
{
	struct ranges *ranges = container_of(op, struct ranges, op);
	struct broker *broker = op->broker;
	int r;

	r = share_take_question(broker->registry, caller, &ranges->payer, why);
	if (r < 0)
		return r;
	ranges->size = allocation->size;
	op->uid = caller->uid;
	op->pid = caller->pid;
	op->worker = allocation->owner->worker;
	op->finish = ranges_finish;
	op->work.unasked = true;
	work_use(&op->work, allocation, 0, allocation->size, false);
	op->work.uses[0].watches = true;
	r = broker->registry->shutting_down ? -ESTALE : op_add_unlimited(op, ready);
	if (r < 0) {
		share_give(ranges->payer, SHARE_QUESTIONS, 1);
		text_printf(why, r == -ESTALE ? "the broker is shutting down"
					      : "no memory in the broker");
	}
	return r;
}

static void ranges_start(struct broker *broker, struct token token,
			 const struct caller *caller, const char *file,
			 const struct key *keys, struct completion *wait)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	char name[FULL_NAME_MAX + 1] = "?";
	struct op *op = NULL, *ready = NULL;
	struct allocation *allocation;
	int r = -ESTALE;

	pthread_mutex_lock(&broker->registry->lock);
	allocation = allocation_get(broker->registry, token.slot, token.generation);
	if (allocation && allocation->managed) {
		strcpy(name, allocation_name(allocation).text);
		op = op_new(sizeof(struct ranges), &ranges_class, broker,
			    allocation->owner);
		r = op ? ranges_queue(op, allocation, caller, &ready, &why) : -ENOMEM;
	} else {
		text_printf(&why, "the allocation has been freed");
	}
	if (r == 0) {
		container_of(op, struct ranges, op)->file = file;
		container_of(op, struct ranges, op)->keys = keys;
		op_hold(op, wait);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	op_start(ready);
	if (r == 0)
		return;
	op_free(op);
	ranges_fail(broker, caller, name, file, -r, text_string(&why));
	wait->done(wait, r, NULL, 0);
}

void state_advise(struct broker *broker, struct token token, const struct caller *caller,
		  struct completion *wait)
{
	ranges_start(broker, token, caller, "advise", advise_keys, wait);
}

void ask_last_prefetch(struct broker *broker, struct token token,
		       const struct caller *caller, struct completion *wait)
{
	ranges_start(broker, token, caller, "last_prefetch", prefetch_keys, wait);
}

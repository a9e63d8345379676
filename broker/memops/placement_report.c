/* SPDX-License-Identifier: MIT */
/*
 * The files advise and last_prefetch: the driver's own answers about managed memory.
 *
 * The owner's worker is asked range by range: each reply has the values from an offset on
 * and their extent (WIRE_RANGE). The registry's records only say where values may differ;
 * the values come from the driver and may differ within a record. After RUNS_MAX
 * different ranges the rest is shown as `mixed`.
 *
 * The queries are outside the order of uses, so a file can be read while a kernel runs on
 * the memory. Each query looks the allocation up anew. While the allocation is being
 * restored in another process (checkpoint.h), no worker can answer: an op waits for the
 * restore, and all queries start again.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/completion.h"
#include "base/refusal.h"
#include "cuda/result.h"
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
#include "process/checkpoint.h"

#define RUNS_MAX	  4096
#define ASK_AT_MOST	  (MANAGED_RANGES_MAX + RUNS_MAX)
#define ASK_AGAIN_AT_MOST 3

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
	struct broker *broker;
	struct token token;
	uid_t uid;
	pid_t pid;
	const char *file;	/* in the allocation's folder */
	const struct key *keys; /* the last has no name */

	struct completion *wait; /* NULL: interrupted. registry.lock */
	struct owner *payer;	 /* charged for the question */
	struct request request;
	struct worker *worker;
	uint32_t epoch; /* of the process asked */
	unsigned int n_again;
	unsigned int n_asked;
	uint64_t size;
	uint64_t offset; /* known up to here */
	struct said *runs;
	size_t n_runs;
	char name[OBJECT_NAME_MAX + 1];
};

static void ranges_ask(struct ranges *ranges);

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

/* ---- the end ---- */

static void ranges_free(struct ranges *ranges)
{
	if (ranges->payer) {
		pthread_mutex_lock(&ranges->broker->registry->lock);
		share_give(ranges->payer, SHARE_QUESTIONS, 1);
		pthread_mutex_unlock(&ranges->broker->registry->lock);
	}
	free(ranges->runs);
	free(ranges);
}

static struct completion *ranges_take_wait(struct ranges *ranges)
{
	struct completion *wait;

	pthread_mutex_lock(&ranges->broker->registry->lock);
	wait = completion_take(&ranges->wait);
	pthread_mutex_unlock(&ranges->broker->registry->lock);
	return wait;
}

static void ranges_done(struct ranges *ranges)
{
	struct completion *wait = ranges_take_wait(ranges);
	_cleanup_text_ struct text text = TEXT_INIT;

	ranges_print(ranges, &text);
	if (wait)
		wait->done(wait, text_failed(&text) ? -ENOMEM : 0, text.data,
			   text.length);
	ranges_free(ranges);
}

static void ranges_fail(struct ranges *ranges, int error, const char *sentence)
{
	struct completion *wait = ranges_take_wait(ranges);
	char file[128];

	if (wait) {
		snprintf(file, sizeof(file), "allocations/%s/%s", ranges->name,
			 ranges->file);
		journal_fail(ranges->broker->journal, ranges->uid, ranges->pid, file,
			     error, sentence);
		wait->done(wait, -error, NULL, 0);
	}
	ranges_free(ranges);
}

static void ranges_fail_call(struct ranges *ranges, int error, int call, int result)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	text_printf(&text, "%s of allocation %s could not be asked for: %s", ranges->file,
		    ranges->name, strerror(error));
	text_add_call(&text, call, result);
	ranges_fail(ranges, error, text_string(&text));
}

/* ---- during a restore ---- */

struct ranges_wait {
	struct op op;
	struct ranges *ranges;
};

static void ranges_wait_finish(struct op *op)
{
	struct ranges *ranges = container_of(op, struct ranges_wait, op)->ranges;

	ranges->offset = 0;
	ranges->n_runs = 0;
	ranges->n_asked = 0;
	ranges_ask(ranges);
}

static const struct op_class ranges_wait_class = {
	.what = "waiting for memory",
	.begin = op_begin_nothing,
	.on_lost = true,
	.quiet = true,
};

/* Whether the allocation has moved to another process, or will. */
static bool ranges_have_moved(const struct ranges *ranges,
			      const struct allocation *allocation)
{
	return allocation && allocation->state == ALLOCATION_LIVE &&
	       (allocation->restoring || allocation->worker_epoch != ranges->epoch);
}

/*
 * Asks again after the restore. Returns: false, with no op added, if this is not
 * possible.
 */
static bool ranges_ask_again(struct ranges *ranges)
{
	struct broker *broker = ranges->broker;
	struct allocation *allocation;
	struct op *op = NULL, *ready = NULL;
	int r = -ESTALE;

	pthread_mutex_lock(&broker->registry->lock);
	allocation = allocation_get(broker->registry, ranges->token.slot,
				    ranges->token.generation);
	if (ranges_have_moved(ranges, allocation) &&
	    ranges->n_again++ < ASK_AGAIN_AT_MOST)
		op = op_new(sizeof(struct ranges_wait), &ranges_wait_class, broker,
			    allocation->owner);
	if (op) {
		container_of(op, struct ranges_wait, op)->ranges = ranges;
		op->finish = ranges_wait_finish;
		work_use(&op->work, allocation, 0, allocation->size, false);
		r = op_add(op, &ready);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	op_start(ready);
	if (r < 0)
		op_free(op);
	return r == 0;
}

/* ---- asking ---- */

static bool ranges_are_wanted(struct ranges *ranges)
{
	bool wanted;

	pthread_mutex_lock(&ranges->broker->registry->lock);
	wanted = ranges->wait;
	pthread_mutex_unlock(&ranges->broker->registry->lock);
	return wanted;
}

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

static void ranges_replied(struct request *request, const struct wire_reply *reply,
			   bool lost)
{
	struct ranges *ranges = container_of(request, struct ranges, request);

	if (!lost && cuda_result_is_sticky(reply->result))
		checkpoint_note_fault(ranges->broker, ranges->worker, ranges->epoch,
				      reply);
	if (lost || reply->error) {
		if (!ranges_ask_again(ranges))
			ranges_fail_call(ranges, reply->error, reply->call,
					 reply->result);
		return;
	}
	if (ranges_add(ranges, reply->value[0]) < 0) {
		ranges_fail_call(ranges, ENOMEM, -1, 0);
		return;
	}
	ranges->offset += reply->value[1];
	if (ranges->offset == ranges->size || ranges->n_runs == RUNS_MAX ||
	    ++ranges->n_asked == ASK_AT_MOST || !ranges_are_wanted(ranges))
		ranges_done(ranges);
	else
		ranges_ask(ranges);
}

/* Prepares a query and its worker. Returns: 0; -ESTALE, with a sentence. */
static int ranges_prepare(struct ranges *ranges, struct worker_needs *needs,
			  struct refusal *refusal)
{
	struct broker *broker = ranges->broker;
	const struct allocation *allocation;
	uint64_t end;
	int r = 0;

	pthread_mutex_lock(&broker->registry->lock);
	allocation = allocation_get(broker->registry, ranges->token.slot,
				    ranges->token.generation);
	if (!allocation || !allocation->managed) {
		r = refuse(refusal, ESTALE, "the allocation has been freed");
	} else if (allocation->state == ALLOCATION_LOST) {
		strcpy(ranges->name, allocation->name);
		r = refuse_lost(refusal, allocation);
	} else {
		strcpy(ranges->name, allocation->name);
		ranges->size = allocation->size;
		(void)managed_find(allocation->managed, ranges->offset, &end);
		ranges->epoch = allocation->worker_epoch;
		ranges->worker = allocation->owner->worker;
		*needs = (struct worker_needs){ .epoch = ranges->epoch };
		ranges->request = (struct request){
			.record = {
				.op = WIRE_RANGE,
				.device = allocation->device,
				.address = allocation->address + ranges->offset,
				.length = end - ranges->offset,
			},
			.fd = -1,
			.done = ranges_replied,
		};
	}
	pthread_mutex_unlock(&broker->registry->lock);
	return r;
}

static void ranges_ask(struct ranges *ranges)
{
	struct worker_needs needs;
	struct refusal refusal;
	uint32_t epoch;
	int r;

	r = ranges_prepare(ranges, &needs, &refusal);
	if (r < 0) {
		ranges_fail(ranges, -r, refusal.sentence);
		return;
	}
	r = worker_send(ranges->worker, &needs, &ranges->request, &epoch);
	if (r < 0 && !ranges_ask_again(ranges))
		ranges_fail_call(ranges, r == -ESTALE ? ESTALE : EIO, -1, 0);
}

/* Whose name is in the file of the failure. Under registry.lock. */
static void ranges_name(struct ranges *ranges)
{
	const struct allocation *allocation = allocation_get(
		ranges->broker->registry, ranges->token.slot, ranges->token.generation);

	if (allocation)
		strcpy(ranges->name, allocation->name);
}

static void ranges_start(struct broker *broker, struct token token,
			 const struct caller *caller, const char *file,
			 const struct key *keys, struct completion *wait)
{
	struct ranges *ranges = calloc(1, sizeof(*ranges));
	_cleanup_text_ struct text why = TEXT_INIT;
	int r;

	if (!ranges) {
		wait->done(wait, -ENOMEM, NULL, 0);
		return;
	}
	*ranges = (struct ranges){
		.broker = broker,
		.token = token,
		.uid = caller->uid,
		.pid = caller->pid,
		.file = file,
		.keys = keys,
		.name = "?",
	};
	pthread_mutex_lock(&broker->registry->lock);
	completion_hold(wait, &ranges->wait, NULL);
	ranges_name(ranges);
	r = share_take_question(broker->registry, caller, &ranges->payer, &why);
	pthread_mutex_unlock(&broker->registry->lock);
	if (r < 0)
		ranges_fail(ranges, -r, text_string(&why));
	else
		ranges_ask(ranges);
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

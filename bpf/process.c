/* SPDX-License-Identifier: MIT */
#include "process.h"

#include "kernel/bucket.h"
#include "mount.h"
#include "symbol.h"
#include "trace.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int process_follow_me(void *probes_)
{
	const struct probes *probes = probes_;
	LIBBPF_OPTS(bpf_test_run_opts, opts);
	int error = bpf_prog_test_run_opts(bpf_program__fd(probes->bpf->progs.follow_me),
					   &opts);

	if (!error)
		return 0;
	errno = -error;
	return -1;
}

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

void processes_say_lost(const struct tracer *tracer)
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

void processes_tell_lost(struct tracer *tracer)
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

/* ---- the ledger ---- */

/* Programs of the kernel change the buckets meanwhile. */
static __u64 tag_read(const struct bucket *bucket, size_t way)
{
	return __atomic_load_n(&bucket->tags[way], __ATOMIC_ACQUIRE);
}

/* Room for all that may be there is asked for at once; what is not used is never had. */
static int buckets_read(const struct tracer *tracer, struct held **ret_held,
			size_t *ret_n)
{
	struct held *held = malloc(BUCKETS * WAYS * sizeof *held);
	size_t n = 0;

	if (!held)
		return -ENOMEM;
	for (size_t i = 0; i < BUCKETS * WAYS; i++) {
		const struct bucket *bucket = &tracer->probes.buckets[i / WAYS];
		const struct slot *slot = &bucket->slots[i % WAYS];
		__u64 tag = tag_read(bucket, i % WAYS);

		if (tag < TAG_ENTRY)
			continue;
		held[n] = (struct held){ slot->key, slot->entry };
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		n += tag_read(bucket, i % WAYS) == tag;
	}
	*ret_held = held;
	*ret_n = n;
	return 0;
}

static void ledger_remove(const struct tracer *tracer, const struct ledger_key *key)
{
	__u64 tag = ledger_tag(key);
	struct bucket *bucket = &tracer->probes.buckets[ledger_bucket(tag)];

	for (size_t way = 0; way < WAYS; way++) {
		__u64 seen = tag;

		if (tag_read(bucket, way) == tag &&
		    ledger_key_is(&bucket->slots[way].key, key) &&
		    __atomic_compare_exchange_n(&bucket->tags[way], &seen, TAG_FREE,
						false, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED))
			return;
	}
	bpf_map__delete_elem(tracer->probes.bpf->maps.ledger, key, sizeof *key, 0);
}

#define BATCH 4096

static int map_read(const struct tracer *tracer, struct held **held, size_t *n)
{
	int fd = bpf_map__fd(tracer->probes.bpf->maps.ledger);
	_cleanup_free_ struct ledger_key *keys = malloc(BATCH * sizeof *keys);
	_cleanup_free_ struct entry *entries = malloc(BATCH * sizeof *entries);
	__u32 in = 0, out = 0;
	bool first = true;
	int error = 0;

	while (keys && entries && !error) {
		__u32 n_read = BATCH;

		error = bpf_map_lookup_batch(fd, first ? NULL : &in, &out, keys, entries,
					     &n_read, NULL);
		if (error && error != -ENOENT)
			return error;
		struct held *more = realloc(*held, (*n + n_read + 1) * sizeof *more);
		if (!more)
			return -ENOMEM;
		*held = more;
		for (__u32 i = 0; i < n_read; i++)
			more[(*n)++] = (struct held){ keys[i], entries[i] };
		in = out;
		first = false;
	}
	return keys && entries ? 0 : -ENOMEM;
}

int ledger_read(const struct tracer *tracer, struct held **ret_held, size_t *ret_n)
{
	_cleanup_free_ struct held *held = NULL;
	size_t n = 0;
	int error = buckets_read(tracer, &held, &n);

	if (!error)
		error = map_read(tracer, &held, &n);
	if (error)
		return error;
	*ret_held = take_ptr(held);
	*ret_n = n;
	return 0;
}

static int compare_ids(const void *a, const void *b)
{
	__u64 x = ((const struct process_row *)a)->id,
	      y = ((const struct process_row *)b)->id;

	return (x > y) - (x < y);
}

/* What those that have ended held goes out of the ledger. */
static void bury_held(struct tracer *tracer, struct process_row *dead, size_t n_dead)
{
	_cleanup_free_ struct held *held = NULL;
	size_t n;

	if (ledger_read(tracer, &held, &n))
		return;
	qsort(dead, n_dead, sizeof *dead, compare_ids);
	for (size_t i = 0; i < n; i++) {
		struct process_row wanted = { .id = held[i].key.process };

		if (!bsearch(&wanted, dead, n_dead, sizeof *dead, compare_ids))
			continue;
		ledger_remove(tracer, &held[i].key);
		held[i].key.unused = 1; /* marked as one of theirs */
	}
	if (!tracer->output->buried)
		return;
	for (size_t i = 0; i < n_dead; i++) {
		size_t n_own = 0;
		_cleanup_free_ struct held *own = malloc((n + 1) * sizeof *own);

		for (size_t j = 0; own && j < n; j++)
			if (held[j].key.unused && held[j].key.process == dead[i].id)
				own[n_own++] = held[j];
		tracer->output->buried(tracer, &dead[i].process, own, own ? n_own : 0);
	}
}

/* ---- processes ---- */

static int read_live(const struct tracer *tracer, struct process_row **rows, size_t *n)
{
	volatile struct process *processes = tracer->probes.processes;

	for (size_t i = 0; i < PROCESSES_MAX; i++) {
		/* the pid is written last */
		if (!processes[i].id || !processes[i].pid)
			continue;
		struct process_row *more = realloc(*rows, (*n + 1) * sizeof *more);
		if (!more)
			return -ENOMEM;
		*rows = more;
		more[*n].process = processes[i];
		more[*n].id = more[*n].process.id;
		(*n)++;
	}
	return 0;
}

int processes_read(const struct tracer *tracer, struct process_row **ret_rows,
		   size_t *ret_n)
{
	_cleanup_free_ struct process_row *rows =
		malloc((tracer->n_ended + 1) * sizeof *rows);
	size_t n = 0;

	if (!rows)
		return -ENOMEM;
	for (; n < tracer->n_ended; n++)
		rows[n] = (struct process_row){ .process = tracer->ended[n] };
	int error = read_live(tracer, &rows, &n);
	if (error)
		return error;
	*ret_rows = take_ptr(rows);
	*ret_n = n;
	return 0;
}

#define ENDED_MAX 65536

static void keep_ended(struct tracer *tracer, const struct process *process)
{
	if (!tracer->output->keeps_ended || tracer->n_ended == ENDED_MAX)
		return;
	struct process *ended =
		realloc(tracer->ended, (tracer->n_ended + 1) * sizeof *ended);
	if (!ended)
		return;
	tracer->ended = ended;
	ended[tracer->n_ended++] = *process;
}

/* Another process may take the place as soon as the number is gone. */
static void clear_place(volatile struct process *processes, uint64_t id)
{
	for (size_t i = 0; i < PROCESSES_MAX; i++) {
		if (processes[i].id != id)
			continue;
		processes[i] = (struct process){ .id = id };
		processes[i].id = 0;
	}
}

static void meet(const struct tracer *tracer, const struct process *process)
{
	const struct mount_user user = {
		.process = process->id,
		.pid = process->pid,
		.uid = process->uid,
		.comm = process->comm,
	};

	mounts_meet(tracer->mounts, &user);
}

void processes_bury(struct tracer *tracer)
{
	_cleanup_free_ struct process_row *rows = NULL;
	size_t n = 0, n_dead = 0;

	if (!tracer->someone_ended || read_live(tracer, &rows, &n))
		return;
	tracer->someone_ended = false;
	for (size_t i = 0; i < n; i++) {
		if (rows[i].process.ended)
			rows[n_dead++] = rows[i];
		else
			meet(tracer, &rows[i].process);
	}
	if (!n_dead)
		return;
	bury_held(tracer, rows, n_dead);
	for (size_t i = 0; i < n_dead; i++) {
		keep_ended(tracer, &rows[i].process);
		functions_forget(tracer->functions, rows[i].id);
		mounts_forget(tracer->mounts, rows[i].id);
		symbols_close(tracer->symbols, rows[i].id);
		clear_place(tracer->probes.processes, rows[i].id);
	}
}

bool process_is_early(const struct tracer *tracer, const struct process *process)
{
	return process->start < tracer->start_boot;
}

/* SPDX-License-Identifier: MIT */
#include "process.h"

#include "import.h"
#include "ledger.h"
#include "mount.h"
#include "symbol.h"
#include "trace.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>

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

static int compare_ids(const void *a, const void *b)
{
	__u64 x = ((const struct process_row *)a)->id,
	      y = ((const struct process_row *)b)->id;

	return (x > y) - (x < y);
}

/* Takes the memory of ended processes out of the ledger. */
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
		held[i].key.unused = 1; /* marks an entry of theirs */
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
		imports_end(tracer->imports, rows[i].id, tracer->output->keeps_ended);
		symbols_close(tracer->symbols, rows[i].id);
		clear_place(tracer->probes.processes, rows[i].id);
	}
}

bool process_is_early(const struct tracer *tracer, const struct process *process)
{
	return process->start < tracer->start_boot;
}

/* SPDX-License-Identifier: MIT */
#include "process/worker_instance.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "process/checkpoint.h"
#include "process/processes.h"

#define ANSWERING_THREADS 2
#define IDLE_STOP_SECONDS 5
#define BARREN_MAX	  3

void run_note_reason(struct run *run, const char *reason, int error)
{
	struct worker *worker = run->worker;

	if (!run->reason[0]) {
		snprintf(run->reason, sizeof(run->reason), "%s", reason);
		run->error = error;
	}
	if (!run->stopping) {
		snprintf(worker->end_reason, sizeof(worker->end_reason), "%s",
			 run->reason);
		worker->end_error = run->error;
		worker->end_epoch = run->epoch;
	}
}

static void worker_name(const struct worker *worker, char *name, size_t size)
{
	if (worker->owner)
		snprintf(name, size, "owners/%u", worker->owner->uid);
	else
		snprintf(name, size, "mover");
}

/* Notes the start of a process. worker->lock is held. */
static void run_tell_start(struct broker *broker, struct worker *worker)
{
	char name[32];

	worker_name(worker, name, sizeof(name));
	__atomic_add_fetch(&broker->processes->n_runs, 1, __ATOMIC_RELAXED);
	journal_event(&broker->journal, "worker_start %s run=%u", name, worker->epoch);
}

/* Marks allocations of the process as lost, except those being restored. */
static void run_lose_all(struct broker *broker, const struct owner *owner, uint32_t epoch,
			 const char *why)
{
	struct allocation *allocation;

	for (uint32_t slot = 0;
	     (allocation = slots_next(&broker->registry.allocations, &slot)); slot++) {
		if (allocation->owner == owner && !kind_is_durable(allocation->kind) &&
		    allocation->worker_epoch == epoch && !allocation->restoring)
			worker_lose_allocation(broker, allocation, why);
	}
}

/*
 * Notes the end of a process (unasked: it died) and marks its allocations as lost. No
 * lock is held.
 */
static void run_tell_end(struct broker *broker, struct worker *worker, uint32_t epoch,
			 bool unasked, const char *reason)
{
	char name[32];

	worker_name(worker, name, sizeof(name));
	pthread_mutex_lock(&broker->registry.lock);
	journal_event(&broker->journal, "worker_end %s run=%u reason=\"%s\"", name, epoch,
		      reason);
	if (unasked) {
		broker->processes->restarts++;
		if (worker->owner)
			worker->owner->restarts++;
	}
	if (worker->owner)
		run_lose_all(broker, worker->owner, epoch, reason);
	else if (unasked)
		broker->processes->mover_wanted = true;
	pthread_mutex_unlock(&broker->registry.lock);
	rescue_run_ended(broker, worker, epoch);
}

static void run_ended(void *userdata, struct link *link, const char *reason)
{
	struct run *run = userdata;
	struct worker *worker = run->worker;
	struct broker *broker = worker->broker;
	bool stopping;

	pthread_mutex_lock(&worker->lock);
	stopping = run->stopping;
	worker->n_barren += !stopping && !run->proved;
	if (worker->link == link)
		worker->link = NULL;
	run_note_reason(run, reason, EIO);
	pthread_mutex_unlock(&worker->lock);

	run_tell_end(broker, worker, run->epoch, !stopping, run->reason);

	pthread_mutex_lock(&broker->registry.lock);
	LL_PREPEND2(broker->processes->dead_runs, run, next_dead);
	broker_wake_housekeeper(broker);
	pthread_mutex_unlock(&broker->registry.lock);
}

struct run *run_free(struct run *run)
{
	struct run *next = run->next_dead;

	pthread_mutex_lock(&run->worker->lock);
	LL_DELETE(run->worker->runs, run);
	pthread_mutex_unlock(&run->worker->lock);
	link_free(run->link);
	free(run);
	return next;
}

int worker_start(struct worker *worker)
{
	struct broker *broker = worker->broker;
	char name[32] = "mover";
	struct link_config config = {
		.program = broker->processes->worker_program,
		.driver = broker->processes->driver_path,
		.name = name,
		.mover = !worker->owner,
		.uid = worker->owner ? worker->owner->uid : geteuid(),
		.gid = worker->owner ? worker->owner->gid : getegid(),
		.staging_fd = worker->staging.fd,
		.staging_size = worker->staging.size,
		.output_fd = -1,
		.n_threads = ANSWERING_THREADS,
		.ended = run_ended,
	};
	_cleanup_close_ int output = -1;
	struct run *run;
	int r;

	if (worker->closed)
		return -ESHUTDOWN;
	if (worker->owner && worker->n_barren >= BARREN_MAX)
		return -EHOSTDOWN;
	if (worker->owner) {
		snprintf(name, sizeof(name), "%u", worker->owner->uid);
		output = output_open(worker->owner->output);
		if (output < 0)
			return output;
		config.output_fd = output;
	}
	run = calloc(1, sizeof(*run));
	if (!run)
		return -ENOMEM;
	run->worker = worker;
	run->epoch = worker->epoch + 1;
	run->refusal = (struct wire_reply){ .error = EACCES, .call = -1 };
	config.userdata = run;
	/* run_ended() needs worker->lock, so run->link is set before the call. */
	r = link_new(&run->link, &config);
	if (r < 0) {
		free(run);
		return r;
	}
	(void)take_fd(&output);
	worker->link = run->link;
	worker->run = run;
	LL_PREPEND(worker->runs, run);
	worker->epoch++;
	run_tell_start(broker, worker);
	return 0;
}

bool worker_has_failed(struct worker *worker)
{
	bool failed;

	pthread_mutex_lock(&worker->lock);
	failed = worker->owner && worker->n_barren >= BARREN_MAX;
	pthread_mutex_unlock(&worker->lock);
	return failed;
}

void worker_forgive(struct worker *worker)
{
	pthread_mutex_lock(&worker->lock);
	worker->n_barren = 0;
	if (worker->link)
		worker->run->proved = true;
	pthread_mutex_unlock(&worker->lock);
}

bool worker_is_up(const struct worker *worker)
{
	return worker->link && link_state(worker->link) != LINK_ENDED;
}

bool worker_runs(struct worker *worker, uint32_t epoch)
{
	bool runs;

	pthread_mutex_lock(&worker->lock);
	runs = worker->epoch == epoch && worker_is_up(worker);
	pthread_mutex_unlock(&worker->lock);
	return runs;
}

pid_t worker_pid(struct worker *worker)
{
	pid_t pid = 0;

	pthread_mutex_lock(&worker->lock);
	if (worker_is_up(worker))
		pid = link_pid(worker->link);
	pthread_mutex_unlock(&worker->lock);
	return pid;
}

void worker_tell_left(struct worker *worker, struct text *text)
{
	const struct run *run;

	pthread_mutex_lock(&worker->lock);
	LL_FOREACH (worker->runs, run) {
		pid_t pid = link_pid(run->link);

		if (pid)
			text_printf(text, "%s%d", text->length ? ", " : "", pid);
	}
	pthread_mutex_unlock(&worker->lock);
}

void worker_end_reason(struct worker *worker, char *ret_reason, size_t size)
{
	char reason[sizeof(worker->end_reason)] = "";

	pthread_mutex_lock(&worker->lock);
	/* Requests are answered before run_ended() has noted the reason. */
	if (worker->link && !worker->run->reason[0])
		link_reason(worker->link, reason, sizeof(reason));
	snprintf(ret_reason, size, "%s",
		 reason[0]		 ? reason
		 : worker->end_reason[0] ? worker->end_reason
					 : "ended");
	pthread_mutex_unlock(&worker->lock);
}

int worker_end_error(struct worker *worker, uint32_t epoch)
{
	int error = EIO;

	pthread_mutex_lock(&worker->lock);
	/* Nothing is noted yet for a process that has just ended. */
	if (worker->end_epoch == epoch && worker->end_error)
		error = worker->end_error;
	pthread_mutex_unlock(&worker->lock);
	return error;
}

bool worker_gave_up(struct worker *worker, uint32_t epoch)
{
	bool given_up;

	pthread_mutex_lock(&worker->lock);
	given_up = worker->given_up_epoch == epoch;
	pthread_mutex_unlock(&worker->lock);
	return given_up;
}

/* Detaches the process: the next request starts another. Under worker->lock. */
static struct link *worker_take_link(struct worker *worker)
{
	if (worker->link)
		worker->run->stopping = true;
	return take_ptr(worker->link);
}

void worker_close(struct worker *worker, unsigned int seconds)
{
	struct link *link;

	pthread_mutex_lock(&worker->lock);
	worker->closed = true;
	link = worker_take_link(worker);
	pthread_mutex_unlock(&worker->lock);
	if (link)
		link_stop(link, seconds);
}

void worker_condemn(struct worker *worker, uint32_t epoch, const char *reason)
{
	pthread_mutex_lock(&worker->lock);
	if (worker->epoch == epoch && worker->link) {
		run_note_reason(worker->run, reason, EIO);
		link_kill(worker->link);
	}
	pthread_mutex_unlock(&worker->lock);
}

struct link *worker_abandon(struct worker *worker, uint32_t epoch, const char *reason,
			    int error)
{
	struct link *link = NULL;

	pthread_mutex_lock(&worker->lock);
	if (worker->link && worker->epoch == epoch) {
		run_note_reason(worker->run, reason, error);
		/* The broker ended the process; this is no failure of its own. */
		worker->run->proved = true;
		worker->given_up_epoch = epoch;
		link = take_ptr(worker->link);
	}
	pthread_mutex_unlock(&worker->lock);
	return link;
}

uint32_t worker_epoch(struct worker *worker)
{
	uint32_t epoch;

	pthread_mutex_lock(&worker->lock);
	epoch = worker->link ? worker->epoch : 0;
	pthread_mutex_unlock(&worker->lock);
	return epoch;
}

void worker_end_idle(struct worker *worker, int64_t idle_s)
{
	struct link *link = NULL;

	pthread_mutex_lock(&worker->lock);
	if (worker->link && link_pending(worker->link) == 0 && !worker->run->held &&
	    clock_ms() - worker->last_asked_ms >= idle_s * 1000)
		link = worker_take_link(worker);
	pthread_mutex_unlock(&worker->lock);
	if (link)
		link_stop(link, IDLE_STOP_SECONDS);
}

/* SPDX-License-Identifier: MIT */
#include "api/housekeeper.h"

#include <errno.h>

#include "api/broker.h"
#include "api/owner_drop.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/subordinates.h"
#include "keep/keep.h"
#include "memops/no_memory.h"
#include "memops/spare_blocks.h"
#include "memops/still_mapped.h"
#include "memory/kept.h"
#include "model/owner.h"
#include "model/registry.h"
#include "op/deadline.h"
#include "process/checkpoint.h"
#include "process/file_process.h"
#include "process/processes.h"

#define MOVER_MS 1000 /* minimum between two starts of the mover */
#define ROUND_MS 1000 /* maximum between two rounds */
/* An empty block is kept for so long: small allocations often come and go. */
#define SPARE_MS 1000

/* Ends idle workers of owners without memory in them. */
static void housekeeper_end_idle(struct broker *broker)
{
	struct owner *owner, *safe;

	pthread_mutex_lock(&broker->registry->lock);
	HASH_ITER (hh, broker->registry->owners_by_uid, owner, safe) {
		if (owner->worker && owner->n_in_worker == 0)
			worker_end_idle(owner->worker, broker->processes->worker_idle_s);
	}
	pthread_mutex_unlock(&broker->registry->lock);
}

/* Starts the mover in advance. */
static void housekeeper_start_mover(struct broker *broker)
{
	worker_wake(&broker->processes->mover, (1u << broker->registry->n_devices) - 1);
}

/*
 * Restarts a dead mover, but not too often. Returns: milliseconds until the restart; -1:
 * none needed.
 */
static int64_t housekeeper_restart_mover(struct broker *broker)
{
	int64_t now = clock_ms(), next = broker->processes->mover_started_ms + MOVER_MS;
	bool wanted, due;

	pthread_mutex_lock(&broker->registry->lock);
	wanted = broker->processes->mover_wanted && !broker->registry->shutting_down;
	due = wanted && now >= next;
	if (due)
		broker->processes->mover_wanted = false;
	pthread_mutex_unlock(&broker->registry->lock);
	if (due) {
		broker->processes->mover_started_ms = now;
		housekeeper_start_mover(broker);
	}
	return wanted && !due ? next - now : -1;
}

/* Restarts workers that were given up, before their owners need them. */
static void housekeeper_wake_workers(struct broker *broker)
{
	struct owner *owner, *safe;
	struct worker *worker;
	uint32_t wanted;

	do {
		worker = NULL;
		pthread_mutex_lock(&broker->registry->lock);
		HASH_ITER (hh, broker->registry->owners_by_uid, owner, safe) {
			if (!owner->worker || !owner->worker->wanted)
				continue;
			worker = owner->worker;
			wanted = worker->wanted;
			worker->wanted = 0;
			break;
		}
		pthread_mutex_unlock(&broker->registry->lock);
		if (worker)
			worker_wake(worker, wanted);
	} while (worker);
}

/* The shorter of two waits; negative: none. */
static int64_t min_wait(int64_t wait_ms, int64_t other_ms)
{
	return wait_ms < 0 ? other_ms : MIN(wait_ms, other_ms);
}

/* Sleeps until that time, or until woken. Returns: false at the end. */
static bool housekeeper_wait(struct broker *broker, int64_t until_ms)
{
	bool stop;
	int r = 0;

	pthread_mutex_lock(&broker->registry->lock);
	while (!broker->processes->housekeeper_wanted &&
	       !broker->processes->housekeeper_stop && r == 0)
		r = clock_cond_wait(&broker->processes->housekeeper_wake,
				    &broker->registry->lock, until_ms);
	/* Requests from now on, even by this round, are for the next round. */
	broker->processes->housekeeper_wanted = false;
	stop = broker->processes->housekeeper_stop;
	pthread_mutex_unlock(&broker->registry->lock);
	return !stop;
}

static bool housekeeper_sees_view(struct broker *broker)
{
	const struct processes *processes = broker->processes;
	bool lives;

	pthread_mutex_lock(&broker->registry->lock);
	lives = !processes->view_lives || processes->view_lives(processes->view);
	pthread_mutex_unlock(&broker->registry->lock);
	return lives;
}

/* Without beats the keeper kills the broker in the end, and starts another. */
static void housekeeper_beat(struct broker *broker)
{
	if (!housekeeper_sees_view(broker))
		return;
	kept_settle(broker->memory);
	keep_say_beat(broker->memory->keep);
}

static void *housekeeper_main(void *userdata)
{
	struct broker *broker = userdata;
	int64_t next_ms, beat_ms = 0;
	bool goes_on;

	do {
		next_ms = min_wait(deadlines_check(broker), ROUND_MS);
		next_ms = min_wait(checkpoint_check_limits(broker), next_ms);
		next_ms = min_wait(housekeeper_restart_mover(broker), next_ms);
		goes_on = housekeeper_wait(broker, clock_ms() + next_ms + 1);
		instances_bury(broker);
		alloc_queues_wake(broker);
		housekeeper_wake_workers(broker);
		housekeeper_end_idle(broker);
		file_processes_look(broker, broker->processes->worker_idle_s);
		still_mapped_look_all(broker);
		spare_blocks_give_back_old(broker, clock_ms() - SPARE_MS);
		owners_drop(broker);
		subordinates_look(broker->registry->subordinates);
		if (clock_ms() - beat_ms >= ROUND_MS / 2) {
			beat_ms = clock_ms();
			housekeeper_beat(broker);
		}
	} while (goes_on);
	return NULL;
}

void broker_watch_view(struct broker *broker, bool (*lives)(void *userdata),
		       void *userdata)
{
	pthread_mutex_lock(&broker->registry->lock);
	broker->processes->view_lives = lives;
	broker->processes->view = userdata;
	pthread_mutex_unlock(&broker->registry->lock);
}

void housekeeper_end(struct broker *broker)
{
	if (!broker->processes->housekeeper_runs)
		return;
	pthread_mutex_lock(&broker->registry->lock);
	broker->processes->housekeeper_stop = true;
	pthread_cond_signal(&broker->processes->housekeeper_wake);
	pthread_mutex_unlock(&broker->registry->lock);
	pthread_join(broker->processes->housekeeper, NULL);
	broker->processes->housekeeper_runs = false;
}

int housekeeper_begin(struct broker *broker)
{
	if (pthread_create(&broker->processes->housekeeper, NULL, housekeeper_main,
			   broker))
		return -EAGAIN;
	broker->processes->housekeeper_runs = true;
	housekeeper_start_mover(broker);
	return 0;
}

/* SPDX-License-Identifier: MIT */
#include "memops/lease_process.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include <utlist.h>

#include "base/hash.h"
#include "base/workqueue.h"
#include "memops/lease.h"
#include "memops/lease_private.h"
#include "model/registry.h"
#include "model/shares.h"
#include "process/broker.h"
#include "process/user_lanes.h"

#define EXIT_MS 10000 /* at most, from the end of a lease to the exit of its process */

struct lease_process {
	struct broker *broker;
	pid_t pid;
	int fd;
	uid_t uid; /* of the first lease */
	unsigned int n_refs;
	bool listed;
	struct task close;
	bool closing;	     /* the task is under way */
	struct owner *payer; /* of the last lease, while there is none; NULL: nobody */
	struct lease *departing; /* wait for the exit */
	bool awaited;		 /* with a reference */
	UT_hash_handle hh;
};

static void process_unlist(struct lease_process *process)
{
	if (process->listed)
		HASH_DEL(process->broker->leases->processes, process);
	process->listed = false;
}

static void process_give(struct lease_process *process)
{
	struct owner *payer = take_ptr(process->payer);

	if (payer)
		share_give(payer, SHARE_DESCRIPTORS, 1);
}

static void process_close(struct task *task)
{
	struct lease_process *process = container_of(task, struct lease_process, close);
	struct registry *registry = process->broker->registry;
	bool serves;

	pthread_mutex_lock(&registry->lock);
	process->closing = false;
	/* A lease may have come meanwhile. */
	serves = process->n_refs > 0;
	if (!serves)
		process_unlist(process);
	if (serves)
		registry_less_busy(registry);
	pthread_mutex_unlock(&registry->lock);
	if (serves)
		return;
	close(process->fd);
	pthread_mutex_lock(&registry->lock);
	process_give(process);
	registry_less_busy(registry);
	pthread_mutex_unlock(&registry->lock);
	free(process);
}

void lease_process_put(struct lease_process *process, struct owner *payer)
{
	bool is_last = process && --process->n_refs == 0;

	/* A process whose exit is awaited gets no more leases. */
	if (process && (is_last || process->awaited) && !process->payer)
		process->payer = payer;
	else if (payer)
		share_give(payer, SHARE_DESCRIPTORS, 1);
	if (!is_last || process->closing)
		return;
	process->closing = true;
	process->close.run = process_close;
	process->broker->registry->n_busy++;
	user_lane_add(process->broker, LANE_CLOSES, process->uid, &process->close);
}

static struct lease_process *process_new(struct broker *broker, pid_t pid, uid_t uid)
{
	struct lease_process *process = calloc(1, sizeof(*process));

	if (!process)
		return NULL;
	*process = (struct lease_process){
		.broker = broker,
		.pid = pid,
		.fd = pidfd_open(pid, 0),
		.uid = uid,
		.listed = true,
	};
	if (process->fd < 0) {
		free(process);
		return NULL;
	}
	HASH_ADD(hh, broker->leases->processes, pid, sizeof(process->pid), process);
	return process;
}

struct lease_process *lease_process_get(struct broker *broker, pid_t pid, uid_t uid)
{
	struct lease_process *process;

	HASH_FIND(hh, broker->leases->processes, &pid, sizeof(pid), process);
	/* Another process may have the number by now. */
	if (process && process_has_ended(process->fd)) {
		process_unlist(process);
		process = NULL;
	}
	if (!process)
		process = process_new(broker, pid, uid);
	if (!process)
		return NULL;
	process->n_refs++;
	process_give(process);
	return process;
}

/* Returns: a lease that waits for the exit no longer; NULL: there are no more. */
static struct lease *take_departing(struct lease_process *process)
{
	pthread_mutex_t *lock = &process->broker->registry->lock;
	struct lease *lease;

	pthread_mutex_lock(lock);
	lease = process->departing;
	if (lease) {
		LL_DELETE2(process->departing, lease, next_departing);
	} else {
		process->awaited = false;
		lease_process_put(process, NULL);
	}
	pthread_mutex_unlock(lock);
	return lease;
}

static void process_ended(void *userdata)
{
	struct lease_process *process = userdata;
	struct lease *lease;

	while ((lease = take_departing(process)))
		lease_departed(lease);
}

void lease_await_exit(struct lease *lease)
{
	struct lease_process *process = lease->process;
	struct registry *registry = process->broker->registry;
	struct awaited awaited = {
		.fd = process->fd,
		.events = EPOLLIN,
		.timeout_ms = EXIT_MS,
		.done = process_ended,
		.userdata = process,
	};
	bool first;

	pthread_mutex_lock(&registry->lock);
	LL_PREPEND2(process->departing, lease, next_departing);
	first = !process->awaited;
	process->awaited = true;
	process->n_refs += first;
	pthread_mutex_unlock(&registry->lock);
	if (first && !reaper_add(&process->broker->leases->reaper, &awaited))
		process_ended(process);
}

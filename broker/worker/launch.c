/* SPDX-License-Identifier: MIT */
#include "worker/launch.h"

#include <errno.h>
#include <stdio.h>
#include <utlist.h>

#include "base/clock.h"
#include "protocol/wire.h"
#include "worker/pool.h"
#include "worker/serve.h"
#include "worker/worker.h"

/* Shared memory available to every kernel; more needs an attribute of the function. */
#define SHARED_PLAIN 49152u
/* Largest cluster that every device supports, in blocks. */
#define CLUSTER_PLAIN 8u
/*
 * Many kernels end within SPIN_NS. After this time the thread sleeps between two queries,
 * for a SLEEP_PART of the time waited so far.
 */
#define SPIN_NS	      100000
#define SLEEP_PART    16
#define SLEEP_NS_MOST 1000000

/* ---- events ---- */

static int event_get(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	struct launch_queue *queue = &worker->launches;
	uint32_t device = job->request.device;

	pthread_mutex_lock(&worker->streams.lock);
	job->event = queue->n_events[device]
			     ? queue->events[device][--queue->n_events[device]]
			     : NULL;
	pthread_mutex_unlock(&worker->streams.lock);
	if (job->event)
		return 0;
	return CUDA(worker->driver, failure, cuEventCreate, &job->event,
		    CU_EVENT_DISABLE_TIMING);
}

/*
 * Keeps the event for later launches; without memory the event remains until the process
 * ends. Under the streams' lock.
 */
static void event_put_locked(struct worker *worker, struct job *job)
{
	struct launch_queue *queue = &worker->launches;
	uint32_t device = job->request.device;
	unsigned int *capacity = &queue->events_capacity[device];

	if (queue->n_events[device] == *capacity) {
		unsigned int more = *capacity ? *capacity * 2 : 16;
		CUevent *events = realloc(queue->events[device], more * sizeof(CUevent));

		if (!events)
			return;
		queue->events[device] = events;
		*capacity = more;
	}
	queue->events[device][queue->n_events[device]++] = job->event;
}

/* ---- putting launches into the GPU's queue ---- */

static int after_wait(struct worker *worker, struct job *job, uint64_t id,
		      struct cuda_failure *failure)
{
	struct job *before;
	CUevent event;

	pthread_mutex_lock(&worker->streams.lock);
	HASH_FIND(hh, worker->launches.in_flight, &id, sizeof(id), before);
	/* Only this thread may give the event to another launch meanwhile. */
	event = before ? before->event : NULL;
	pthread_mutex_unlock(&worker->streams.lock);
	if (!event)
		return 0;
	return CUDA(worker->driver, failure, cuStreamWaitEvent, job->stream, event, 0);
}

static int function_prepare(struct worker *worker, const struct wire_launch *launch,
			    CUfunction function, struct cuda_failure *failure)
{
	uint64_t blocks =
		(uint64_t)launch->cluster[0] * launch->cluster[1] * launch->cluster[2];
	int r = 0;

	if (launch->shared > SHARED_PLAIN)
		r = CUDA(worker->driver, failure, cuFuncSetAttribute, function,
			 CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
			 (int)launch->shared);
	if (r == 0 && blocks > CLUSTER_PLAIN)
		r = CUDA(worker->driver, failure, cuFuncSetAttribute, function,
			 CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
	return r;
}

static int launch_clustered(struct worker *worker, const struct job *job,
			    CUfunction function, void **params,
			    struct cuda_failure *failure)
{
	const struct wire_launch *launch = wire_launch_parts(job->payload).launch;
	CUlaunchAttribute attributes[] = {
		{
			.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
			.value.clusterDim = { launch->cluster[0], launch->cluster[1],
					      launch->cluster[2] },
		},
		{
			.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
			.value.cooperative = !!(job->request.flags & WIRE_COOPERATIVE),
		},
	};
	CUlaunchConfig config = {
		.gridDimX = launch->grid[0],
		.gridDimY = launch->grid[1],
		.gridDimZ = launch->grid[2],
		.blockDimX = launch->block[0],
		.blockDimY = launch->block[1],
		.blockDimZ = launch->block[2],
		.sharedMemBytes = launch->shared,
		.hStream = job->stream,
		.attrs = attributes,
		.numAttrs = ARRAY_SIZE(attributes),
	};

	return CUDA(worker->driver, failure, cuLaunchKernelEx, &config, function, params,
		    NULL);
}

static int kernel_launch(struct worker *worker, const struct job *job,
			 CUfunction function, struct cuda_failure *failure)
{
	struct wire_launch_parts parts = wire_launch_parts(job->payload);
	const struct wire_launch *launch = parts.launch;
	void *params[WIRE_ARGS_MAX];

	for (uint32_t i = 0; i < launch->n_args; i++)
		params[i] = (void *)(parts.bytes + parts.args[i].offset);
	if (launch->cluster[0])
		return launch_clustered(worker, job, function, params, failure);
	if (job->request.flags & WIRE_COOPERATIVE)
		return CUDA(worker->driver, failure, cuLaunchCooperativeKernel, function,
			    launch->grid[0], launch->grid[1], launch->grid[2],
			    launch->block[0], launch->block[1], launch->block[2],
			    launch->shared, job->stream, params);
	return CUDA(worker->driver, failure, cuLaunchKernel, function, launch->grid[0],
		    launch->grid[1], launch->grid[2], launch->block[0], launch->block[1],
		    launch->block[2], launch->shared, job->stream, params, NULL);
}

static int launch_enqueue(struct worker *worker, struct job *job,
			  struct cuda_failure *failure)
{
	struct wire_launch_parts parts = wire_launch_parts(job->payload);
	CUfunction function;
	int r;

	r = device_enter(worker, job->request.device, failure);
	if (r == 0)
		r = module_function(worker, &job->request, &function, failure);
	for (uint32_t i = 0; r == 0 && i < parts.launch->n_after; i++)
		r = after_wait(worker, job, parts.after[i], failure);
	if (r == 0)
		r = function_prepare(worker, parts.launch, function, failure);
	if (r == 0)
		r = event_get(worker, job, failure);
	if (r < 0)
		return r;
	job->begun_ns = clock_ns(CLOCK_MONOTONIC);
	r = kernel_launch(worker, job, function, failure);
	if (r == 0)
		r = CUDA(worker->driver, failure, cuEventRecord, job->event, job->stream);
	return r;
}

/* ---- the queue of received launches ---- */

bool launch_receive(struct worker *worker, struct job *job)
{
	struct launch_queue *queue = &worker->launches;
	bool taken;

	pthread_mutex_lock(&worker->streams.lock);
	job->in_flight = false;
	if (!queue->first)
		queue->end = &queue->first;
	job->later = NULL;
	*queue->end = job;
	queue->end = &job->later;
	taken = queue->taken;
	queue->taken = true;
	pthread_mutex_unlock(&worker->streams.lock);
	return !taken;
}

bool launch_is_under_way(struct worker *worker)
{
	bool under_way;

	pthread_mutex_lock(&worker->streams.lock);
	under_way = worker->launches.in_flight;
	pthread_mutex_unlock(&worker->streams.lock);
	return under_way;
}

/* Takes the next launch; NULL when there is none, and the queue is then free. */
static struct job *launch_next(struct worker *worker)
{
	struct launch_queue *queue = &worker->launches;
	struct job *job;

	pthread_mutex_lock(&worker->streams.lock);
	job = queue->first;
	if (job)
		queue->first = job->later;
	else
		queue->taken = false;
	pthread_mutex_unlock(&worker->streams.lock);
	return job;
}

/* Answers a launch that failed before the GPU's queue. */
static void launch_refuse(struct worker *worker, struct job *job, int r,
			  const struct cuda_failure *failure)
{
	if (job->event) {
		pthread_mutex_lock(&worker->streams.lock);
		event_put_locked(worker, job);
		pthread_mutex_unlock(&worker->streams.lock);
	}
	serve_answer(worker, job, r, failure);
	pool_put(worker, job);
}

/*
 * Puts a launch into the GPU's queue. Returns: whether its stream needs a thread that
 * waits.
 */
static bool launch_one(struct worker *worker, struct job *job)
{
	struct cuda_failure failure = CUDA_FAILURE_NONE;
	bool first;
	int r = 0;

	job->event = NULL;
	if (worker_is_lost(worker, &failure))
		r = -ECANCELED;
	if (r == 0)
		r = stream_join(&worker->streams, job);
	if (r == 0)
		r = launch_enqueue(worker, job, &failure);
	if (r < 0) {
		launch_refuse(worker, job, r, &failure);
		return false;
	}
	pthread_mutex_lock(&worker->streams.lock);
	job->in_flight = true;
	HASH_ADD(hh, worker->launches.in_flight, request.id, sizeof(job->request.id),
		 job);
	first = stream_add_launch(&worker->streams, job);
	pthread_mutex_unlock(&worker->streams.lock);
	return first;
}

/* ---- the end of kernels ---- */

/* Whether the event is still to come; else *ret is the result. */
static bool event_is_ahead(struct worker *worker, CUevent event, int *ret,
			   struct cuda_failure *failure)
{
	*failure = (struct cuda_failure)CUDA_FAILURE_NONE;
	*ret = CUDA(worker->driver, failure, cuEventQuery, event);
	return *ret < 0 && failure->result == CUDA_ERROR_NOT_READY;
}

static void sleep_ns(uint64_t ns)
{
	const struct timespec time = { .tv_nsec = (long)ns };

	nanosleep(&time, NULL);
}

/*
 * Polls, because a wait in the driver would either occupy a processor as long as the
 * kernel runs, or cost an interrupt even for the shortest kernel.
 */
static int event_wait(struct worker *worker, CUevent event, struct cuda_failure *failure)
{
	uint64_t begin = clock_ns(CLOCK_MONOTONIC);
	int r;

	while (event_is_ahead(worker, event, &r, failure)) {
		uint64_t taken = clock_ns(CLOCK_MONOTONIC) - begin;

		pool_wait(worker, taken);
		if (taken > SPIN_NS)
			sleep_ns(MIN(taken / SLEEP_PART, (uint64_t)SLEEP_NS_MOST));
	}
	return r;
}

/*
 * Flushes printf output of kernels: the driver writes the output in a synchronizing call,
 * not in a query. Synchronizing the stream instead would also wait for a later kernel.
 */
static int launch_flush(struct worker *worker, const struct job *job,
			struct cuda_failure *failure)
{
	return CUDA(worker->driver, failure, cuEventSynchronize, job->event);
}

/*
 * Waits for a launch and answers it. ended_ns: end of the previous launch on the stream.
 * Returns: the next launch on the stream; NULL when there is none, and no thread waits
 * any more.
 */
static struct job *launch_finish(struct worker *worker, struct job *job,
				 uint64_t *ended_ns, bool *failed)
{
	struct cuda_failure failure = CUDA_FAILURE_NONE;
	struct job *next;
	int r = -ECANCELED;

	if (!*failed)
		r = event_wait(worker, job->event, &failure);
	if (r == 0)
		r = launch_flush(worker, job, &failure);
	if (*failed)
		(void)worker_is_lost(worker, &failure);
	job->value[0] = clock_ns(CLOCK_MONOTONIC) - MAX(job->begun_ns, *ended_ns);
	*ended_ns = clock_ns(CLOCK_MONOTONIC);
	*failed |= r < 0;
	pthread_mutex_lock(&worker->streams.lock);
	HASH_DELETE(hh, worker->launches.in_flight, job);
	next = stream_end_launch(&worker->streams, job);
	event_put_locked(worker, job);
	pthread_mutex_unlock(&worker->streams.lock);
	/* The output has to reach the broker before the answer. */
	fflush(stdout);
	serve_answer(worker, job, r, &failure);
	pool_put(worker, job);
	return next;
}

static void launch_wait(struct worker *worker, struct job *job)
{
	struct cuda_failure failure = CUDA_FAILURE_NONE;
	uint64_t ended_ns = 0;
	bool failed = false;

	if (job)
		(void)device_enter(worker, job->request.device, &failure);
	while (job)
		job = launch_finish(worker, job, &ended_ns, &failed);
}

/*
 * Puts all received launches into the GPU's queues. Returns: a launch to wait for; NULL.
 */
static struct job *launch_drain(struct worker *worker)
{
	struct job *mine = NULL, *job;

	while ((job = launch_next(worker))) {
		if (!launch_one(worker, job))
			continue;
		if (mine)
			pool_queue(worker, job);
		else
			mine = job;
	}
	return mine;
}

void launch_run(struct worker *worker, struct job *job)
{
	launch_wait(worker, job->in_flight ? job : launch_drain(worker));
}

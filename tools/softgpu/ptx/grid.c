/* SPDX-License-Identifier: MIT */
/*
 * A launch: the blocks, spread over threads of the host.
 *
 * Blocks begin in order. A block that has run for a while without ending is put back and
 * others go on, so that a block may wait for another block, as far as the other has
 * begun: up to as many as are resident, and all of a cooperative grid.
 */
#include "cluster.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#define RESIDENT_MIN 16 /* blocks, for each thread of the host */
#define MAX_THREADS  16

struct crew {
	struct grid grid;
	pthread_mutex_t lock;
	uint64_t next;	     /* block to begin */
	uint64_t n_resident; /* begun and not ended */
	uint64_t max_resident;
	struct block *waiting; /* begun, and put back */
	struct block **tail;
	struct block *spare; /* to be used again */
};

static void crew_fault(struct crew *crew, enum ptx_fault fault)
{
	int none = PTX_FAULT_NONE;

	__atomic_compare_exchange_n(&crew->grid.fault, &none, (int)fault, false,
				    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static bool crew_is_over(struct crew *crew)
{
	const struct ptx_machine *machine = crew->grid.launch->machine;

	if (machine->stopped(machine->data))
		crew_fault(crew, PTX_FAULT_STOPPED);
	return __atomic_load_n(&crew->grid.fault, __ATOMIC_RELAXED);
}

static struct block *crew_begin_one(struct crew *crew)
{
	struct block *block = crew->spare;

	if (block)
		crew->spare = block->next;
	else
		block = block_new(&crew->grid);
	if (!block || !block_start(block, crew->next)) {
		block_free(block);
		crew_fault(crew, PTX_FAULT_MEMORY);
		return NULL;
	}
	crew->next++;
	crew->n_resident++;
	return block;
}

/* Puts a block behind those that wait for their turn. */
static void crew_put(struct crew *crew, struct block *block)
{
	block->next = NULL;
	*crew->tail = block;
	crew->tail = &block->next;
}

/* All blocks of a cluster begin together; the others get their turn soon. */
static struct block *crew_begin(struct crew *crew)
{
	const struct ptx_dim size = crew->grid.launch->cluster;
	const uint32_t n = size.x * size.y * size.z;
	struct cluster *cluster;
	struct block *first = NULL;

	if (!n)
		return crew_begin_one(crew);
	cluster = cluster_new();
	if (!cluster) {
		crew_fault(crew, PTX_FAULT_MEMORY);
		return NULL;
	}
	for (uint32_t i = 0; i < n; i++) {
		struct block *block = crew_begin_one(crew);

		if (!block)
			break;
		cluster_join(cluster, block);
		if (first)
			crew_put(crew, block);
		else
			first = block;
	}
	if (!first)
		free(cluster);
	return first;
}

/* A new block while there is room, so that each gets its first turn early. */
static struct block *crew_take(struct crew *crew)
{
	struct block *block = NULL;

	pthread_mutex_lock(&crew->lock);
	if (crew->waiting && (crew->next == crew->grid.n_blocks ||
			      crew->n_resident >= crew->max_resident)) {
		block = crew->waiting;
		crew->waiting = block->next;
		if (!crew->waiting)
			crew->tail = &crew->waiting;
	} else if (crew->next < crew->grid.n_blocks) {
		block = crew_begin(crew);
	}
	pthread_mutex_unlock(&crew->lock);
	return block;
}

static void crew_give(struct crew *crew, struct block *block, bool has_ended)
{
	pthread_mutex_lock(&crew->lock);
	if (has_ended) {
		cluster_leave(block);
		block->next = crew->spare;
		crew->spare = block;
		crew->n_resident--;
	} else {
		crew_put(crew, block);
	}
	pthread_mutex_unlock(&crew->lock);
}

static bool crew_has_more(struct crew *crew)
{
	bool more;

	pthread_mutex_lock(&crew->lock);
	more = crew->next < crew->grid.n_blocks || crew->waiting;
	pthread_mutex_unlock(&crew->lock);
	return more;
}

static void rest(void)
{
	nanosleep(&(struct timespec){ 0, 200000 }, NULL);
}

static void *crew_work(void *arg)
{
	struct crew *crew = arg;
	struct worker worker = { .grid = &crew->grid, .epoch = UINT64_MAX };

	while (!crew_is_over(crew) && crew_has_more(crew)) {
		struct block *block = crew_take(crew);
		bool stuck = false;

		if (!block)
			break;
		crew_give(crew, block, block_run(block, &worker, &stuck));
		if (stuck)
			rest();
	}
	return NULL;
}

/* Helpers beside this thread, where there is enough to do. */
static uint32_t crew_start(struct crew *crew, pthread_t *threads)
{
	const struct ptx_machine *machine = crew->grid.launch->machine;
	const uint64_t wanted = MIN(crew->grid.n_blocks, (uint64_t)machine->n_threads);
	sigset_t all, before;
	uint32_t n = 0;

	sigfillset(&all);
	sigdelset(&all, SIGBUS); /* of an access of the thread's own */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (n + 1 < wanted && n < MAX_THREADS &&
	       !pthread_create(&threads[n], NULL, crew_work, crew))
		n++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return n;
}

static void crew_free(struct crew *crew)
{
	struct block *lists[] = { crew->waiting, crew->spare };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		while (lists[i]) {
			struct block *next = lists[i]->next;

			cluster_leave(lists[i]);
			block_free(lists[i]);
			lists[i] = next;
		}
	}
	pthread_mutex_destroy(&crew->lock);
}

enum ptx_fault ptx_launch_run(const struct ptx_launch *launch)
{
	struct crew crew = {
		.grid.launch = launch,
		.grid.n_blocks =
			(uint64_t)launch->grid.x * launch->grid.y * launch->grid.z,
	};
	pthread_t threads[MAX_THREADS];
	uint32_t n_threads;

	pthread_mutex_init(&crew.lock, NULL);
	crew.tail = &crew.waiting;
	crew.max_resident = launch->cooperative
				    ? crew.grid.n_blocks
				    : (uint64_t)RESIDENT_MIN * launch->machine->n_threads;
	n_threads = crew_start(&crew, threads);
	crew_work(&crew);
	for (uint32_t i = 0; i < n_threads; i++)
		pthread_join(threads[i], NULL);
	crew_free(&crew);
	return (enum ptx_fault)crew.grid.fault;
}

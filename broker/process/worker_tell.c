/* SPDX-License-Identifier: MIT */
/*
 * Announces objects to a worker process, and holds back requests meanwhile.
 *
 * The broker announces a block, a stream or a module before the first request with that
 * object. A kernel on unmapped memory would destroy the contexts of its process. So while
 * a MAP, MAP_HOST or STREAM_CREATE is unanswered, requests with blocks or a stream are
 * held back, in order, until all earlier announcements are answered. If the worker
 * refuses an object needed by a request, the request gets the refusal as its reply and is
 * never sent. The object counts as not announced, so the next request tries again.
 * Nothing else in the worker is affected.
 *
 * After a refused MODULE_LOAD the worker fails requests for the module. After a refused
 * STREAM_DESTROY or MODULE_UNLOAD the object stays in the process until its end.
 */
#include "process/worker_instance.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <utlist.h>

#include "base/def.h"
#include "memory/block.h"
#include "model/module.h"
#include "model/registry.h"

struct telling {
	struct ask ask;
	struct run *run;
	struct block *block; /* to be mapped; NULL: none */
	bool guest;
	struct stream *stream; /* to be made; NULL: none */
	uint64_t number; /* number of the announcement; 0: no request waits for it */
	struct telling *prev, *next;
};

struct held {
	struct ask *ask;
	struct worker_needs needs; /* blocks: its own array */
	uint64_t behind;	   /* number of the last announcement before it */
	bool refused;
	struct held *prev, *next;
};

/* ---- requests that wait ---- */

static struct held *held_free(struct held *held)
{
	free(held->needs.blocks);
	free(held);
	return NULL;
}

static struct held *held_new(struct ask *ask, const struct worker_needs *needs)
{
	struct held *held = calloc(1, sizeof(*held));
	struct needed_block *blocks =
		calloc(MAX(needs->n_blocks, 1u), sizeof(*needs->blocks));

	if (!held || !blocks) {
		free(held);
		free(blocks);
		return NULL;
	}
	for (unsigned int i = 0; i < needs->n_blocks; i++)
		blocks[i] = needs->blocks[i];
	held->ask = ask;
	held->needs = *needs;
	held->needs.blocks = blocks;
	return held;
}

int run_ask(struct run *run, const struct worker_needs *needs, struct ask *ask)
{
	struct held *held;

	if (!run->tellings || (!needs->n_blocks && !needs->stream)) {
		link_ask(run->link, ask);
		return 0;
	}
	held = held_new(ask, needs);
	if (!held)
		return -ENOMEM;
	held->behind = run->n_told;
	DL_APPEND(run->held, held);
	return WORKER_HELD;
}

/* Whether the process has all the request needs. Under worker->lock. */
static bool held_is_served(const struct run *run, const struct held *held)
{
	const struct worker_needs *needs = &held->needs;

	for (unsigned int i = 0; i < needs->n_blocks; i++) {
		const uint32_t *epoch = block_epoch(run->worker, needs->blocks[i].block,
						    needs->blocks[i].guest);

		if (!epoch || *epoch != run->epoch)
			return false;
	}
	return !needs->stream || needs->stream->made_epoch == run->epoch;
}

/*
 * Sends held requests whose announcements are answered, except refused ones. Returns: a
 * list of both. After the end of the process the link answers them as lost: the next
 * process may have got the same announcements meanwhile. Under worker->lock.
 */
static struct held *run_release(struct run *run, bool lost)
{
	uint64_t answered = run->tellings ? run->tellings->number - 1 : run->n_told;
	struct held *released = NULL, *held;

	while ((held = run->held) && held->behind <= answered) {
		DL_DELETE(run->held, held);
		DL_APPEND(released, held);
		held->refused = !lost && !held_is_served(run, held);
		if (!held->refused)
			link_ask(run->link, held->ask);
	}
	return released;
}

/* Answers the refused requests, and calls sent() of each request. No lock held. */
static void held_settle(struct held *released, const struct wire_reply *refusal)
{
	struct held *held, *safe;

	DL_FOREACH_SAFE (released, held, safe) {
		struct ask *ask = held->ask;
		void (*sent)(struct ask * ask) = held->needs.sent;

		if (held->refused) {
			ask->request.id = 0;
			closep(&ask->fd);
			ask->done(ask, refusal, false);
		}
		if (sent)
			sent(ask);
		held_free(held);
	}
}

/* ---- announcing ---- */

/* A refused object counts as not announced. Under worker->lock. */
static void telling_refused(struct telling *telling, const struct wire_reply *reply)
{
	struct run *run = telling->run;
	uint32_t *epoch = NULL;

	run->refusal = *reply;
	if (telling->block)
		epoch = block_epoch(run->worker, telling->block, telling->guest);
	else if (telling->stream)
		epoch = &telling->stream->made_epoch;
	if (epoch && *epoch == run->epoch)
		*epoch = 0;
}

static void telling_done(struct ask *ask, const struct wire_reply *reply, bool lost)
{
	struct telling *telling = container_of(ask, struct telling, ask);
	struct run *run = telling->run;
	struct wire_reply refusal;
	struct held *released;

	pthread_mutex_lock(&run->worker->lock);
	if (telling->number && reply->error && !lost)
		telling_refused(telling, reply);
	if (telling->number)
		DL_DELETE(run->tellings, telling);
	released = run_release(run, lost);
	refusal = run->refusal;
	pthread_mutex_unlock(&run->worker->lock);
	held_settle(released, &refusal);
	free(telling);
}

/*
 * Sends an announcement; requests wait for those with a block or stream. On success fd
 * belongs to the link.
 */
static int run_tell(struct run *run, const struct telling *what, int fd)
{
	struct telling *telling = malloc(sizeof(*telling));

	if (!telling)
		return -ENOMEM;
	*telling = *what;
	telling->ask.fd = fd;
	telling->ask.done = telling_done;
	telling->run = run;
	if (telling->block || telling->stream) {
		telling->number = ++run->n_told;
		DL_APPEND(run->tellings, telling);
	}
	link_ask(run->link, &telling->ask);
	return 0;
}

int run_tell_block(struct run *run, const struct needed_block *needed, int *fd)
{
	struct block *block = needed->block;
	const struct telling telling = {
		.ask.request = {
			.op = block->fd >= 0 ? WIRE_MAP_HOST : WIRE_MAP,
			.flags = needed->guest && !needed->writable ? WIRE_READ_ONLY : 0,
			.device = block->device,
			.address = block->address,
			.length = block->size,
		},
		.block = block,
		.guest = needed->guest,
	};
	uint32_t *epoch = block_epoch(run->worker, block, needed->guest);
	int r;

	if (!epoch)
		return -ENOMEM;
	r = run_tell(run, &telling, *fd);
	if (r < 0)
		return r;
	(void)take_fd(fd);
	*epoch = run->epoch;
	return 0;
}

int run_tell_stream(struct run *run, struct stream *stream)
{
	const struct telling telling = {
		.ask.request = {
			.op = WIRE_STREAM_CREATE,
			.device = stream->device,
			.stream = stream->wire_id,
			.priority = stream->priority,
		},
		.stream = stream,
	};
	int r;

	if (stream->made_epoch == run->epoch)
		return 0;
	r = run_tell(run, &telling, -1);
	if (r == 0)
		stream->made_epoch = run->epoch;
	return r;
}

int run_tell_image(struct run *run, struct image *image)
{
	const struct telling telling = {
		.ask.request = {
			.op = WIRE_MODULE_LOAD,
			.device = image->device,
			.module = image->wire_id,
		},
	};
	_cleanup_close_ int fd = -1;
	int r;

	if (image->made_epoch == run->epoch)
		return 0;
	fd = fcntl(image->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	r = run_tell(run, &telling, fd);
	if (r < 0)
		return r;
	(void)take_fd(&fd);
	image->made_epoch = run->epoch;
	return 0;
}

/* ---- the end of announced objects ---- */

void run_forget(struct run *run, const struct block *block, const struct stream *stream)
{
	struct telling *telling;

	DL_FOREACH (run->tellings, telling) {
		if (block && telling->block == block)
			telling->block = NULL;
		if (stream && telling->stream == stream)
			telling->stream = NULL;
	}
}

/* Whether the process with that epoch still runs and so knows the object. */
static bool worker_knows(const struct worker *worker, uint32_t epoch)
{
	return epoch && worker->epoch == epoch && worker_is_up(worker);
}

void worker_drop_stream(struct worker *worker, const struct stream *stream)
{
	const struct telling telling = {
		.ask.request = {
			.op = WIRE_STREAM_DESTROY,
			.device = stream->device,
			.stream = stream->wire_id,
		},
	};

	pthread_mutex_lock(&worker->lock);
	if (worker_knows(worker, stream->made_epoch)) {
		run_forget(worker->run, NULL, stream);
		(void)run_tell(worker->run, &telling, -1);
	}
	pthread_mutex_unlock(&worker->lock);
}

void worker_drop_image(struct worker *worker, const struct image *image)
{
	const struct telling telling = {
		.ask.request = {
			.op = WIRE_MODULE_UNLOAD,
			.device = image->device,
			.module = image->wire_id,
		},
	};

	pthread_mutex_lock(&worker->lock);
	if (worker_knows(worker, image->made_epoch))
		(void)run_tell(worker->run, &telling, -1);
	pthread_mutex_unlock(&worker->lock);
}

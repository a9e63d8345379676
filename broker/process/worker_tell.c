/* SPDX-License-Identifier: MIT */
/*
 * Announces objects to a worker process, and holds back requests meanwhile.
 *
 * The broker announces a block, a stream or a module before the first request with that
 * object. A kernel on unmapped memory would destroy the contexts of its process, and the
 * time limit of a kernel does not count the load of its module. So while an announcement
 * is unanswered, requests with blocks, a stream or a module are held back, in order,
 * until all earlier announcements are answered. If the worker refuses a block or a stream
 * needed by a request, the request gets the refusal as its reply and is never sent. The
 * object counts as not announced, so the next request tries again. Nothing else in the
 * worker is affected.
 *
 * After a refused MODULE_LOAD the worker fails requests for the module. After a refused
 * STREAM_DESTROY or MODULE_UNLOAD the object stays in the process until its end.
 */
#include "process/worker_instance.h"

#include <errno.h>
#include <fcntl.h>
#include <utlist.h>

#include "base/def.h"
#include "channel/channel.h"
#include "channel/request.h"
#include "memory/block.h"
#include "model/module.h"
#include "model/stream.h"
#include "process/worker.h"

struct telling {
	struct request request;
	struct instance *instance;
	struct block *block; /* to be mapped; NULL: none */
	bool guest;
	struct stream *stream; /* to be made; NULL: none */
	uint64_t number;       /* 0: the end of an object, for which no request waits */
	struct telling *prev, *next;
};

struct held {
	struct request *request;
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

static struct held *held_new(struct request *request, const struct worker_needs *needs)
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
	held->request = request;
	held->needs = *needs;
	held->needs.blocks = blocks;
	return held;
}

int instance_send(struct instance *instance, const struct worker_needs *needs,
		  struct request *request)
{
	struct held *held;

	if (!instance->tellings ||
	    (!needs->n_blocks && !needs->stream && !needs->image)) {
		channel_send(instance->channel, request);
		return 0;
	}
	held = held_new(request, needs);
	if (!held)
		return -ENOMEM;
	held->behind = instance->n_told;
	DL_APPEND(instance->held, held);
	return WORKER_HELD;
}

/* Whether the process has all the request needs. Under worker->lock. */
static bool held_is_served(const struct instance *instance, const struct held *held)
{
	const struct worker_needs *needs = &held->needs;

	for (unsigned int i = 0; i < needs->n_blocks; i++) {
		const uint32_t *epoch = block_epoch(
			instance->worker, needs->blocks[i].block, needs->blocks[i].guest);

		if (!epoch || *epoch != instance->epoch)
			return false;
	}
	return !needs->stream || needs->stream->made_epoch == instance->epoch;
}

/*
 * Sends held requests whose announcements are answered, except refused ones. Returns: a
 * list of both. After the end of the process the channel answers them as lost: the next
 * process may have got the same announcements meanwhile. Under worker->lock.
 */
static struct held *instance_release(struct instance *instance, bool lost)
{
	uint64_t answered =
		instance->tellings ? instance->tellings->number - 1 : instance->n_told;
	struct held *released = NULL, *held;

	while ((held = instance->held) && held->behind <= answered) {
		DL_DELETE(instance->held, held);
		DL_APPEND(released, held);
		held->refused = !lost && !held_is_served(instance, held);
		if (!held->refused)
			channel_send(instance->channel, held->request);
	}
	return released;
}

/* Answers the refused requests, and calls sent() of each request. No lock held. */
static void held_settle(struct held *released, const struct wire_reply *refusal)
{
	struct held *held, *safe;

	DL_FOREACH_SAFE (released, held, safe) {
		struct request *request = held->request;
		void (*sent)(struct request * request) = held->needs.sent;

		if (held->refused) {
			request->record.id = 0;
			closep(&request->fd);
			request->done(request, refusal, false);
		}
		if (sent)
			sent(request);
		held_free(held);
	}
}

/* ---- announcing ---- */

/* A refused object counts as not announced. Under worker->lock. */
static void telling_refused(struct telling *telling, const struct wire_reply *reply)
{
	struct instance *instance = telling->instance;
	uint32_t *epoch = NULL;

	instance->refusal = *reply;
	if (telling->block)
		epoch = block_epoch(instance->worker, telling->block, telling->guest);
	else if (telling->stream)
		epoch = &telling->stream->made_epoch;
	if (epoch && *epoch == instance->epoch)
		*epoch = 0;
}

static void telling_done(struct request *request, const struct wire_reply *reply,
			 bool lost)
{
	struct telling *telling = container_of(request, struct telling, request);
	struct instance *instance = telling->instance;
	struct wire_reply refusal;
	struct held *released;

	pthread_mutex_lock(&instance->worker->lock);
	if ((telling->block || telling->stream) && reply->error && !lost)
		telling_refused(telling, reply);
	if (telling->number)
		DL_DELETE(instance->tellings, telling);
	released = instance_release(instance, lost);
	refusal = instance->refusal;
	pthread_mutex_unlock(&instance->worker->lock);
	held_settle(released, &refusal);
	free(telling);
}

/* Tells of an object or of its end. On success fd belongs to the channel. */
static int instance_tell(struct instance *instance, const struct telling *what, int fd)
{
	struct telling *telling = malloc(sizeof(*telling));

	if (!telling)
		return -ENOMEM;
	*telling = *what;
	telling->request.fd = fd;
	telling->request.done = telling_done;
	telling->instance = instance;
	if (what->request.record.op != WIRE_STREAM_DESTROY &&
	    what->request.record.op != WIRE_MODULE_UNLOAD) {
		telling->number = ++instance->n_told;
		DL_APPEND(instance->tellings, telling);
	}
	channel_send(instance->channel, &telling->request);
	return 0;
}

int instance_tell_block(struct instance *instance, const struct needed_block *needed,
			int *fd)
{
	struct block *block = needed->block;
	const struct telling telling = {
		.request.record = {
			.op = block_is_host(block) ? WIRE_MAP_HOST : WIRE_MAP,
			.flags = needed->guest && !needed->writable ? WIRE_READ_ONLY : 0,
			.device = block_device(block),
			.address = block->address,
			.length = block->size,
		},
		.block = block,
		.guest = needed->guest,
	};
	uint32_t *epoch = block_epoch(instance->worker, block, needed->guest);
	int r;

	if (!epoch)
		return -ENOMEM;
	r = instance_tell(instance, &telling, *fd);
	if (r < 0)
		return r;
	(void)take_fd(fd);
	*epoch = instance->epoch;
	if (needed->guest)
		container_of(epoch, struct guest, epoch)->writable = needed->writable;
	return 0;
}

int instance_tell_stream(struct instance *instance, struct stream *stream)
{
	const struct telling telling = {
		.request.record = {
			.op = WIRE_STREAM_CREATE,
			.device = stream->device,
			.stream = stream->wire_id,
			.priority = stream->priority,
		},
		.stream = stream,
	};
	int r;

	if (stream->made_epoch == instance->epoch)
		return 0;
	r = instance_tell(instance, &telling, -1);
	if (r == 0)
		stream->made_epoch = instance->epoch;
	return r;
}

int instance_tell_image(struct instance *instance, struct image *image)
{
	const struct telling telling = {
		.request.record = {
			.op = WIRE_MODULE_LOAD,
			.device = image->device,
			.module = image->wire_id,
		},
	};
	_cleanup_close_ int fd = -1;
	int r;

	if (image->made_epoch == instance->epoch)
		return 0;
	fd = fcntl(image->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	r = instance_tell(instance, &telling, fd);
	if (r < 0)
		return r;
	(void)take_fd(&fd);
	image->made_epoch = instance->epoch;
	return 0;
}

/* ---- the end of announced objects ---- */

static void instance_forget(struct instance *instance, const struct block *block,
			    const struct stream *stream)
{
	struct telling *telling;

	DL_FOREACH (instance->tellings, telling) {
		if (block && telling->block == block)
			telling->block = NULL;
		if (stream && telling->stream == stream)
			telling->stream = NULL;
	}
}

/* A reply of a process that has ended may still be on its way to telling_done(). */
void worker_forget(const struct worker *worker, const struct block *block,
		   const struct stream *stream)
{
	struct instance *instance;

	LL_FOREACH (worker->instances, instance)
		instance_forget(instance, block, stream);
}

/* Whether the process with that epoch still runs and so knows the object. */
static bool worker_knows(const struct worker *worker, uint32_t epoch)
{
	return epoch && worker->epoch == epoch && worker_is_up(worker);
}

void worker_drop_stream(struct worker *worker, const struct stream *stream)
{
	const struct telling telling = {
		.request.record = {
			.op = WIRE_STREAM_DESTROY,
			.device = stream->device,
			.stream = stream->wire_id,
		},
	};

	pthread_mutex_lock(&worker->lock);
	worker_forget(worker, NULL, stream);
	if (worker_knows(worker, stream->made_epoch))
		(void)instance_tell(worker->instance, &telling, -1);
	pthread_mutex_unlock(&worker->lock);
}

void worker_drop_image(struct worker *worker, const struct image *image)
{
	const struct telling telling = {
		.request.record = {
			.op = WIRE_MODULE_UNLOAD,
			.device = image->device,
			.module = image->wire_id,
		},
	};

	pthread_mutex_lock(&worker->lock);
	if (worker_knows(worker, image->made_epoch))
		(void)instance_tell(worker->instance, &telling, -1);
	pthread_mutex_unlock(&worker->lock);
}

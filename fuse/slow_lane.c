/* SPDX-License-Identifier: MIT */
#include "slow_lane.h"

#include "repeated.h"

#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct slow_request {
	struct slow_request *prev, *next;
	size_t size;
	uid_t uid;
	_Alignas(uint64_t) uint8_t bytes[];
};

static bool may_repeat(const struct slow_request *request)
{
	const struct fuse_in_header *header = (const void *)request->bytes;

	return request_may_repeat(header->opcode);
}

/*
 * The first request of another user than the last one; else the first of all. NULL: none
 * is served now.
 */
static struct slow_request *take_next_locked(struct slow_lane *lane)
{
	struct slow_request *request, *next = NULL;

	DL_FOREACH (lane->waiting, request) {
		if (lane->held && may_repeat(request))
			continue;
		next = next ? next : request;
		if (request->uid == lane->last)
			continue;
		next = request;
		break;
	}
	if (next) {
		DL_DELETE(lane->waiting, next);
		lane->last = next->uid;
	}
	return next;
}

static void *run(void *data)
{
	struct slow_lane *lane = data;

	pthread_mutex_lock(&lane->lock);
	while (!lane->ending) {
		struct slow_request *request = take_next_locked(lane);

		if (!request) {
			pthread_cond_wait(&lane->changed, &lane->lock);
			continue;
		}
		lane->serving = true;
		pthread_mutex_unlock(&lane->lock);
		lane->serve(lane->userdata, &(struct fuse_buf){ .size = request->size,
								.mem = request->bytes });
		free(request);
		pthread_mutex_lock(&lane->lock);
		lane->serving = false;
	}
	pthread_mutex_unlock(&lane->lock);
	return NULL;
}

int slow_lane_init(struct slow_lane *lane,
		   void (*serve)(void *userdata, const struct fuse_buf *request),
		   void *userdata)
{
	*lane = (struct slow_lane){ .serve = serve, .userdata = userdata };
	pthread_mutex_init(&lane->lock, NULL);
	pthread_cond_init(&lane->changed, NULL);
	return -pthread_create(&lane->thread, NULL, run, lane);
}

void slow_lane_deinit(struct slow_lane *lane)
{
	struct slow_request *request, *next;

	pthread_mutex_lock(&lane->lock);
	lane->ending = true;
	pthread_cond_broadcast(&lane->changed);
	pthread_mutex_unlock(&lane->lock);
	pthread_join(lane->thread, NULL);
	DL_FOREACH_SAFE (lane->waiting, request, next)
		free(request);
	pthread_cond_destroy(&lane->changed);
	pthread_mutex_destroy(&lane->lock);
}

bool slow_lane_add(struct slow_lane *lane, const struct fuse_buf *request)
{
	const struct fuse_in_header *header = request->mem;
	struct slow_request *copy = malloc(sizeof(*copy) + request->size);

	if (!copy)
		return false;
	copy->size = request->size;
	copy->uid = header->uid;
	memcpy(copy->bytes, request->mem, request->size);
	pthread_mutex_lock(&lane->lock);
	DL_APPEND(lane->waiting, copy);
	pthread_cond_broadcast(&lane->changed);
	pthread_mutex_unlock(&lane->lock);
	return true;
}

void slow_lane_hold(struct slow_lane *lane, bool held)
{
	pthread_mutex_lock(&lane->lock);
	lane->held = held;
	pthread_cond_broadcast(&lane->changed);
	pthread_mutex_unlock(&lane->lock);
}

unsigned int slow_lane_n_left(struct slow_lane *lane)
{
	const struct slow_request *request;
	unsigned int n;

	pthread_mutex_lock(&lane->lock);
	n = lane->serving;
	DL_FOREACH (lane->waiting, request)
		n += !lane->held || !may_repeat(request);
	pthread_mutex_unlock(&lane->lock);
	return n;
}

/* SPDX-License-Identifier: MIT */
#include "slow_lane.h"

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

/* The first request of another user than the last one; else the first of all. */
static struct slow_request *take_next(struct slow_lane *lane)
{
	struct slow_request *request;

	DL_FOREACH (lane->waiting, request) {
		if (request->uid != lane->last)
			break;
	}
	request = request ? request : lane->waiting;
	DL_DELETE(lane->waiting, request);
	lane->last = request->uid;
	return request;
}

static void *run(void *data)
{
	struct slow_lane *lane = data;

	pthread_mutex_lock(&lane->lock);
	while (lane->waiting || !lane->ending) {
		struct slow_request *request;

		if (!lane->waiting) {
			pthread_cond_wait(&lane->changed, &lane->lock);
			continue;
		}
		request = take_next(lane);
		lane->serving = true;
		pthread_mutex_unlock(&lane->lock);
		lane->serve(lane->userdata, &(struct fuse_buf){ .size = request->size,
								.mem = request->bytes });
		free(request);
		pthread_mutex_lock(&lane->lock);
		lane->serving = false;
		pthread_cond_broadcast(&lane->changed);
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
	pthread_mutex_lock(&lane->lock);
	lane->ending = true;
	pthread_cond_broadcast(&lane->changed);
	pthread_mutex_unlock(&lane->lock);
	pthread_join(lane->thread, NULL);
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

void slow_lane_drain(struct slow_lane *lane)
{
	pthread_mutex_lock(&lane->lock);
	while (lane->waiting || lane->serving)
		pthread_cond_wait(&lane->changed, &lane->lock);
	pthread_mutex_unlock(&lane->lock);
}

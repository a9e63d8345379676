/* SPDX-License-Identifier: MIT */
#include "slow_lane.h"

#include "repeated.h"

#include "base/def.h"

#include <assert.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>

struct slow_request {
	struct turn turn;
	size_t size;
	_Alignas(uint64_t) uint8_t bytes[];
};

static struct slow_request *take_of(struct turns *turns)
{
	struct turn *turn = turns_take(turns, NULL, NULL);

	return turn ? container_of(turn, struct slow_request, turn) : NULL;
}

static void *run(void *data)
{
	struct slow_lane *lane = data;

	pthread_mutex_lock(&lane->lock);
	while (!lane->ending) {
		struct slow_request *request =
			lane->held ? NULL : take_of(&lane->waiting);

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
	struct slow_request *request;

	pthread_mutex_lock(&lane->lock);
	lane->ending = true;
	pthread_cond_broadcast(&lane->changed);
	pthread_mutex_unlock(&lane->lock);
	pthread_join(lane->thread, NULL);
	while ((request = take_of(&lane->waiting)))
		free(request);
	pthread_cond_destroy(&lane->changed);
	pthread_mutex_destroy(&lane->lock);
}

bool slow_lane_add(struct slow_lane *lane, uint64_t user, const struct fuse_buf *request)
{
	struct slow_request *copy = malloc(sizeof(*copy) + request->size);
	const struct fuse_in_header *header = request->mem;

	assert(request_may_repeat(header->opcode));
	if (!copy)
		return false;
	copy->size = request->size;
	memcpy(copy->bytes, request->mem, request->size);
	pthread_mutex_lock(&lane->lock);
	turns_add(&lane->waiting, user, &copy->turn);
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
	unsigned int n;

	pthread_mutex_lock(&lane->lock);
	n = lane->serving + (lane->held ? 0 : lane->waiting.n);
	pthread_mutex_unlock(&lane->lock);
	return n;
}

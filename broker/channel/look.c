/* SPDX-License-Identifier: MIT */
#include "channel/look.h"

#include "base/clock.h"
#include "channel/private.h"

/* Longer than a short kernel, a transfer or cuMemAlloc takes. */
#define LOOK_NS	  150000
#define N_LOOKERS 2 /* at a time */

static _Thread_local struct {
	bool on;
	struct channel *asked; /* the last one; kept until broker_look_end() */
} looker;
static unsigned int n_looking; /* threads; atomic */

/* While kept, a channel that ends calls no `ended`, and is not freed. */
static void channel_keep(struct channel *channel, int change)
{
	pthread_mutex_lock(&channel->lock);
	channel->n_kept += (unsigned int)change;
	if (!channel->n_kept)
		pthread_cond_broadcast(&channel->let_go);
	pthread_mutex_unlock(&channel->lock);
}

static void looker_ask(struct channel *channel)
{
	struct channel *before = looker.asked;

	if (before == channel)
		return;
	looker.asked = channel;
	if (channel)
		channel_keep(channel, 1);
	if (before)
		channel_keep(before, -1);
}

void channel_asked(struct channel *channel)
{
	if (looker.on)
		looker_ask(channel);
}

void channel_wait_let_go_locked(struct channel *channel)
{
	while (channel->n_kept)
		pthread_cond_wait(&channel->let_go, &channel->lock);
}

void broker_look_begin(void)
{
	looker.on = look_is_possible();
}

void broker_look_end(void)
{
	looker_ask(NULL);
	looker.on = false;
}

static bool channel_is_worth_a_look(struct channel *channel)
{
	bool worth;

	pthread_mutex_lock(&channel->lock);
	worth = look_is_worthwhile(&channel->look);
	pthread_mutex_unlock(&channel->lock);
	return worth;
}

static void channel_look(struct channel *channel, bool (*over)(void *userdata),
			 void *userdata)
{
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + LOOK_NS;
	bool in_vain = false;

	while (!in_vain && !over(userdata)) {
		if (!channel_take(channel))
			look_relax();
		in_vain = clock_ns(CLOCK_MONOTONIC) >= end;
	}
	pthread_mutex_lock(&channel->lock);
	look_note(&channel->look, in_vain);
	pthread_mutex_unlock(&channel->lock);
}

void broker_look(bool (*over)(void *userdata), void *userdata)
{
	struct channel *channel = looker.asked;

	if (!channel || !channel_is_worth_a_look(channel))
		return;
	if (__atomic_fetch_add(&n_looking, 1, __ATOMIC_RELAXED) < N_LOOKERS)
		channel_look(channel, over, userdata);
	__atomic_sub_fetch(&n_looking, 1, __ATOMIC_RELAXED);
}

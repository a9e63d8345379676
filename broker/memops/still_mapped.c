/* SPDX-License-Identifier: MIT */
#include "memops/still_mapped.h"

#include <stdlib.h>
#include <utlist.h>

#include "base/def.h"
#include "base/workqueue.h"
#include "memops/give_back.h"
#include "memory/block.h"
#include "model/owner.h"
#include "model/registry.h"
#include "process/broker.h"
#include "process/user_lanes.h"

/* Blocks of an owner that a round asks the kernel about, which takes some 10 us each. */
#define LOOKS_OF_ROUND 64

void still_mapped_restore(const struct broker *broker, struct block *block)
{
	struct owner *payer = block->payer;

	/* The allocation had the descriptor until now. */
	if (!block->pays_descriptor)
		share_restore(payer, SHARE_DESCRIPTORS, 1);
	block->pays_descriptor = true;
	block_save(broker->memory, block, 0);
	payer->shares.still_mapped += block->size;
	DL_APPEND(payer->still_mapped, block);
}

bool still_mapped_add(struct broker *broker, struct block *block)
{
	struct owner *payer = block->payer;

	if (!payer || block->slab)
		return false;
	pthread_mutex_lock(&broker->registry->lock);
	block_close_backing(broker->memory, block);
	pthread_mutex_unlock(&broker->registry->lock);
	if (!host_file_is_open(block->fd))
		return false;
	pthread_mutex_lock(&broker->registry->lock);
	still_mapped_restore(broker, block);
	pthread_mutex_unlock(&broker->registry->lock);
	return true;
}

/* Takes the first block of the owner off the list. NULL: there is none. */
static struct block *take_first(struct broker *broker, struct owner *owner)
{
	struct block *block;

	pthread_mutex_lock(&broker->registry->lock);
	block = owner->still_mapped;
	if (block)
		DL_DELETE(owner->still_mapped, block);
	pthread_mutex_unlock(&broker->registry->lock);
	return block;
}

static void give_back(struct broker *broker, struct block *block)
{
	pthread_mutex_lock(&broker->registry->lock);
	block->payer->shares.still_mapped -= block->size;
	pthread_mutex_unlock(&broker->registry->lock);
	block_give_back(broker, block->payer, block, GIVE_BACK_UNTOLD);
}

void still_mapped_look(struct broker *broker, struct owner *owner, unsigned int n)
{
	struct block *block, *open = NULL;

	while (n-- && (block = take_first(broker, owner))) {
		if (host_file_is_open(block->fd))
			DL_APPEND(open, block);
		else
			give_back(broker, block);
	}
	pthread_mutex_lock(&broker->registry->lock);
	DL_CONCAT(owner->still_mapped, open);
	pthread_mutex_unlock(&broker->registry->lock);
}

/* The next owner who has such blocks; owner NULL: the first. NULL: there is none. */
static struct owner *next_owner(struct broker *broker, struct owner *owner)
{
	struct registry *registry = broker->registry;

	pthread_mutex_lock(&registry->lock);
	do {
		owner = owner ? owner->hh.next : registry->owners_by_uid;
	} while (owner && !owner->still_mapped);
	pthread_mutex_unlock(&registry->lock);
	return owner;
}

/* A round of an owner, in the owner's lane. */
struct look {
	struct task task;
	struct broker *broker;
	struct owner *owner;
};

static void look_run(struct task *task)
{
	struct look *look = container_of(task, struct look, task);
	struct registry *registry = look->broker->registry;

	still_mapped_look(look->broker, look->owner, LOOKS_OF_ROUND);
	pthread_mutex_lock(&registry->lock);
	look->owner->looks_at_mapped = false;
	registry_less_busy(registry);
	pthread_mutex_unlock(&registry->lock);
	free(look);
}

/* Without memory the next round looks. */
static void look_begin(struct broker *broker, struct owner *owner)
{
	struct look *look = NULL;

	pthread_mutex_lock(&broker->registry->lock);
	if (!owner->looks_at_mapped && !broker->registry->shutting_down)
		look = calloc(1, sizeof(*look));
	if (look) {
		*look = (struct look){ { .run = look_run }, broker, owner };
		owner->looks_at_mapped = true;
		broker->registry->n_busy++;
		user_lane_add(broker, LANE_FILES, owner->uid, &look->task);
	}
	pthread_mutex_unlock(&broker->registry->lock);
}

void still_mapped_look_all(struct broker *broker)
{
	struct owner *owner = NULL;

	while ((owner = next_owner(broker, owner)))
		look_begin(broker, owner);
}

void still_mapped_free(struct broker *broker)
{
	struct owner *owner = NULL;
	struct block *block;

	while ((owner = next_owner(broker, owner))) {
		while ((block = take_first(broker, owner)))
			block_free(broker->memory, block);
	}
}

/* SPDX-License-Identifier: MIT */
/*
 * The way of a block back to the driver or the kernel: all workers unmap the block, since
 * the driver keeps memory that is mapped. They are asked at the same time, so that many
 * stopped ones delay the block no longer than one. A worker that takes too long is ended.
 */
#pragma once

#include "memory/reclaim.h"

struct block;
struct broker;
struct owner;
struct worker;

/* Others wait so long for memory that the owner's worker is to free. */
#define GIVE_BACK_PROMPT_MS 1000

/* Whom to tell; functions may be NULL. */
struct give_back_tell {
	/* A user's worker keeps the memory, and others wait no more. Under registry.lock.
	 */
	void (*held)(void *userdata);
	void (*done)(void *userdata); /* no lock held */
	void *userdata;
	/*
	 * For block_withdraw(), which always has it: whether the worker has more time
	 * while kernels of its owner run. Under registry.lock.
	 */
	bool (*may_take_longer)(void *userdata);
};

#define GIVE_BACK_UNTOLD ((struct give_back_tell){ NULL, NULL, NULL })

/* Releases a block once no worker has it mapped. No lock held. */
void block_give_back(struct broker *broker, struct owner *owner, struct block *block,
		     struct give_back_tell tell);

/* Frees a cell of a shared block, and the block with its last cell. No lock held. */
void cell_give_back(struct broker *broker, struct owner *owner, struct block *block,
		    uint32_t cell);

/* Unmaps a block in the worker of another owner; then calls done. No lock held. */
void block_withdraw(struct broker *broker, struct block *block, struct worker *worker,
		    struct give_back_tell tell);

/*
 * Lets all waiters for such memory try again, by the work queue. Without memory for that
 * they have their own time limits. Under registry.lock.
 */
void reclaim_retry_later(struct broker *broker, struct reclaim_from from);

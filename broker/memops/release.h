/* SPDX-License-Identifier: MIT */
/* Releases memory of freed allocations, and blocks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct allocation;
struct block;
struct broker;
struct caller;
struct op;
struct owner;
struct worker;

/*
 * Removes an allocation from the tree; its memory is released after the last use. With
 * registry.lock held; releases the lock.
 */
void allocation_release(struct broker *broker, struct allocation *allocation);

/* The same for a user who asked for it. */
void allocation_release_by(struct broker *broker, struct allocation *allocation,
			   const struct caller *by);

/*
 * The same for several allocations at once: keeps the lock, and adds to *ready the ops
 * for op_start().
 */
void allocation_release_held(struct broker *broker, struct allocation *allocation,
			     const struct caller *by, struct op **ready);

/*
 * Whether the allocation was freed, and uses by others than its owner end in time. Under
 * registry.lock.
 */
bool release_is_limited(const struct allocation *allocation);

/* Counts the memory of a freed allocation as being reclaimed. Under registry.lock. */
void release_count(struct op *op);

/* Continues the op of a freed allocation after its last lease. No lock held. */
void allocation_resume_release(struct op *op);

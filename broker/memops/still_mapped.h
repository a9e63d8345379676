/* SPDX-License-Identifier: MIT */
/*
 * Freed host memory that programs still have open or mapped: the kernel keeps the memory
 * as long. So the owner is charged as long, and can't have more and more of such memory
 * beyond a limit.
 *
 * The kernel tells nobody of the last unmapping: the housekeeper asks, and a request that
 * finds the owner's limit reached. The next broker finds such memory by its record.
 */
#pragma once

#include <stdbool.h>

struct block;
struct broker;
struct owner;

/*
 * Keeps a host block that no worker has mapped if a program has it open. Returns: false:
 * nobody has, and the block can be freed. Without registry.lock.
 */
bool still_mapped_add(struct broker *broker, struct block *block);

/* Keeps such a block of the last broker, which has a payer. Under registry.lock. */
void still_mapped_restore(const struct broker *broker, struct block *block);

/*
 * Looks at up to so many blocks of the owner, in turns, and gives those back that no
 * program has open any more. May take long (struct block, given): in the owner's lane.
 */
void still_mapped_look(struct broker *broker, struct owner *owner, unsigned int n);

/* Each owner's lane looks. Only for the housekeeper: no owner is dropped meanwhile. */
void still_mapped_look_all(struct broker *broker);

/* Frees all blocks at the end of the broker. */
void still_mapped_free(struct broker *broker);

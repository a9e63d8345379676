/* SPDX-License-Identifier: MIT */
/* Giving memory back: of allocations that are freed, and blocks. */
#pragma once

#include "base/def.h"

struct allocation;
struct block;
struct broker;
struct op;
struct owner;

/*
 * Takes an allocation out of the tree; its memory is given back after its last use. With
 * registry.lock held, which it lets go of.
 */
void allocation_release(struct broker *broker, struct allocation *allocation);

/* Goes on with the op of a freed allocation whose last lease has ended. No lock held. */
void allocation_resume_release(struct op *op);

/* Gives a block back once nobody has it mapped; then done, if any. No lock held. */
void block_give_back(struct broker *broker, struct owner *owner, struct block *block,
		     void (*done)(void *userdata), void *userdata);

/* Has a block unmapped in the workers of others than its owner; then done. Likewise. */
void block_withdraw(struct broker *broker, struct block *block,
		    void (*done)(void *userdata), void *userdata);

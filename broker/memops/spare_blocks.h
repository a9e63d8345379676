/* SPDX-License-Identifier: MIT */
/*
 * Empty blocks that the pools of owners keep for their next small allocations. An owner
 * pays for such a block, and has no allocation in it.
 */
#pragma once

#include <stdint.h>

struct broker;
struct owner;

/*
 * Give back those that were kept since before that time (clock_ms()), of all owners, or
 * those of a place (enum place), whatever their time. No lock held.
 */
void spare_blocks_give_back_old(struct broker *broker, int64_t before_ms);
void spare_blocks_give_back_at(struct broker *broker, uint32_t place);

/* Gives back the one of an owner, who has an allocation or is making one. */
void spare_block_give_back(struct broker *broker, struct owner *owner, uint32_t place);

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
 * Give back the spare blocks of all owners: those kept since before a time (clock_ms()),
 * or all those of a place (enum place). No lock held.
 */
void spare_blocks_give_back_old(struct broker *broker, int64_t before_ms);
void spare_blocks_give_back_at(struct broker *broker, uint32_t place);

/*
 * Gives back the spare block of one owner. The owner has an allocation, or is making one,
 * and so is not dropped meanwhile.
 */
void spare_block_give_back(struct broker *broker, struct owner *owner, uint32_t place);

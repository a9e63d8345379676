/* SPDX-License-Identifier: MIT */
/* Copies between allocations. */
#pragma once

#include <stdint.h>

struct allocation;
struct broker;
struct owner;

/*
 * Makes an op that copies length bytes: by the GPU if one worker can reach both
 * allocations, otherwise through the host. With registry.lock held. NULL: no memory.
 */
struct op *copy_op_new(struct broker *broker, struct owner *owner,
		       struct allocation *target, uint64_t target_offset,
		       struct allocation *source, uint64_t source_offset, uint64_t length,
		       void (*finish)(struct op *op));

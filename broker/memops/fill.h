/* SPDX-License-Identifier: MIT */
/* Fills. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct allocation;
struct broker;
struct op;
struct owner;

/*
 * settle() of fills and copies: if a descriptor of `data` made the op, its answer has
 * been given before, and a close or fsync reports the failure.
 */
void data_settle(struct op *op);

/*
 * Makes an op that fills with a pattern of 1, 2, 4 or 8 bytes. With stay, pages of
 * managed memory do not migrate; this is slower. With registry.lock held. NULL: no
 * memory.
 */
struct op *fill_op_new(struct broker *broker, struct owner *owner,
		       struct allocation *allocation, uint64_t offset, uint64_t length,
		       uint64_t pattern, uint32_t pattern_size, bool stay,
		       void (*finish)(struct op *op));

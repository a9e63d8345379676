/* SPDX-License-Identifier: MIT */
/*
 * Zeroing, an op of its own in front of the first use of memory. Memory that is never
 * used is never zeroed.
 */
#pragma once

struct allocation;
struct op;

/* Adds an op of op_zero_new(), without limits. Returns: 0; -ENOMEM. */
int zero_add(struct op *zero, struct op **ret_ready);

/* Adds zeroing of an allocation that the op uses. Returns: 0; -ENOMEM. */
int zero_add_before(struct op *op, struct allocation *allocation, struct op **ret_ready);

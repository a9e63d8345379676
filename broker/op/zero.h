/* SPDX-License-Identifier: MIT */
/*
 * Zeros that are owed: the bytes of an allocation from zeros_from on are old ones, of
 * another user or from before a truncation, that nobody may see. Memory that is never
 * used is never zeroed.
 *
 * A use of such bytes has an op of its own in front, which zeroes them. An op of the
 * mover that begins where the zeros do and overwrites its whole range goes without: it
 * takes the zeros. Until the op has ended, later uses of all bytes from there on wait for
 * it, as they would wait for the zeroing. If the op fails, it writes the zeros itself
 * before it leaves the order. If these fail, too, or the zeroing, the zeros are owed
 * again, and the ops behind it fail.
 */
#pragma once

#include <stdbool.h>

struct op;

/* Adds an op of op_zero_new(), without limits. Returns: 0; -ENOMEM. */
int zero_add(struct op *zero, struct op **ret_ready);

/*
 * Sees to the zeros that the op's uses owe, before the op is added: the op takes them, or
 * zeroing is added. Returns: 0; -ENOMEM.
 */
int zeros_before(struct op *op, struct op **ret_ready);

/* Undoes the taking, for an op that could not be added. */
void zeros_untake(struct op *op);

/*
 * The op ends with that error. Returns: whether the op goes on, to write zeros first; the
 * lock is released. Else *error is the op's.
 */
bool zeros_hold_up(struct op *op, int *error);

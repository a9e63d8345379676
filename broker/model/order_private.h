/* SPDX-License-Identifier: MIT */
/*
 * Shared by the parts of the order: works come, are sent and end (order.c); works that
 * have not begun leave (order_leave.c).
 */
#pragma once

#include "model/order.h"

/* Whether the work of a use waits for the work of another. */
bool use_waits_for(const struct use *use, const struct use *before);

/* Puts a use in the list of its allocation. */
void use_link(struct use *use);

/* Notes by which use a use was dropped from the list; NULL: by one that stays. */
void use_note_dropped(struct use *use, struct use *by);

/* The work waits for another, if not yet. Returns: 0; -EBUSY: for too many; -ENOMEM. */
int work_wait_for(struct work *work, struct work *before);

/* SPDX-License-Identifier: MIT */
/* Permissions of an allocation. */
#pragma once

struct allocation;
struct broker;
struct caller;
struct wait;

/*
 * Moves an allocation out of a shared block to a block of its own; then wait is done.
 * With registry.lock held; releases the lock.
 */
void allocation_move_out(struct broker *broker, struct allocation *allocation,
			 const struct caller *caller, struct wait *wait);

/* SPDX-License-Identifier: MIT */
/* Who may use an allocation, and where it stands for that. */
#pragma once

struct allocation;
struct broker;
struct caller;
struct wait;

/*
 * Moves an allocation that shares a block with others to one of its own; then wait is
 * done. With registry.lock held, which it lets go of.
 */
void allocation_move_out(struct broker *broker, struct allocation *allocation,
			 const struct caller *caller, struct wait *wait);

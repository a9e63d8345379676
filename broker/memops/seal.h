/* SPDX-License-Identifier: MIT */
/*
 * Sealing: an allocation that nobody writes any more, root neither.
 *
 * The flag counts from the moment it is set. Writes that have their place in the order of
 * uses by then are done; later ones are refused where they would be added. So whoever
 * reads after the seal reads what stays.
 */
#pragma once

struct allocation;
struct broker;
struct caller;
struct refusal;

/* Under registry.lock. Returns: 0; -EPERM, -EBUSY, -ESTALE. */
int seal_check(const struct caller *caller, const struct allocation *allocation,
	       struct refusal *refusal);

/* Seals an allocation that passed the check; twice is once. Under registry.lock. */
void seal(struct broker *broker, struct allocation *allocation,
	  const struct caller *caller);

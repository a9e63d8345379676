/* SPDX-License-Identifier: MIT */
/*
 * Sealing: an allocation that nobody writes any more, root neither.
 *
 * The flag counts from the moment it is set. Writes that have their place in the order of
 * uses by then are done; later ones are refused where they would be added. So whoever
 * reads after the seal reads what stays.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct allocation;
struct broker;
struct caller;
struct refusal;

/*
 * A program of the user gets the file of the allocation's memory, to write. Under
 * registry.lock.
 */
void seal_note_lent(struct allocation *allocation, uid_t uid);

/*
 * Asks the kernel, if seal_check() has to, who has an allocation open: without the lock,
 * since the kernel takes 15 us. No lock held. Returns: false when the check would refuse.
 */
bool seal_ask(struct broker *broker, const struct caller *caller, const char *name);

/* Whether the check asks the kernel now. Under registry.lock. */
bool seal_check_asks(const struct allocation *allocation);

/* Under registry.lock. Returns: 0; -EPERM, -EBUSY, -ESTALE. */
int seal_check(const struct caller *caller, const struct allocation *allocation,
	       struct refusal *refusal);

/* Seals an allocation that passed the check; twice is once. Under registry.lock. */
void seal(struct broker *broker, struct allocation *allocation,
	  const struct caller *caller);

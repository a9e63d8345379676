/* SPDX-License-Identifier: MIT */
/*
 * Publishing: a set of allocations gets its names at once, sealed. Who looks a name up
 * finds the old allocation or the new one, and never the old of one name with the new of
 * another.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct broker;
struct caller;
struct refusal;

/* A pair of a line: the allocation `name` gets the name `to`. Borrowed. */
struct publication {
	const char *name, *to;
	uint64_t id; /* that `name` must have; 0: any */
};

/* Whether publish() may take long: it belongs into the user's lane. No lock held. */
bool publish_lasts(struct broker *broker, const struct caller *caller,
		   const struct publication *publications, size_t n);

/*
 * Seals the allocations, keeps them beyond `until=close` and renames them, all or none.
 * An allocation that had one of the names is freed, as by rmdir. No lock held.
 *
 * Returns: 0; -ENOENT, -EPERM, -EBUSY, -ESTALE, -EINVAL, -ENOMEM.
 */
int publish(struct broker *broker, const struct caller *caller,
	    const struct publication *publications, size_t n, struct refusal *refusal);

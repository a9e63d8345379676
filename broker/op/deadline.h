/* SPDX-License-Identifier: MIT */
/*
 * Time limits: what takes too long is ended by the housekeeper. A deadline is embedded in
 * what it limits. Under registry.lock.
 */
#pragma once

#include <stdint.h>

struct broker;

struct deadline {
	int64_t at_ms; /* CLOCK_MONOTONIC; 0: none is set */
	/* The time is over, and none is set any more; it may set the next one. */
	void (*passed)(struct deadline *deadline);
	struct deadline *prev, *next; /* of broker->ops->deadlines */
};

/* In place of the one that is set, if any. */
void deadline_set(struct broker *broker, struct deadline *deadline, uint32_t ms,
		  void (*passed)(struct deadline *deadline));

/* Does nothing where none is set. */
void deadline_clear(struct broker *broker, struct deadline *deadline);

/*
 * Calls those that have passed. For the housekeeper, without registry.lock.
 * Returns: milliseconds until the next one will have, -1 where there is none.
 */
int64_t deadlines_check(struct broker *broker);

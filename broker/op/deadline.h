/* SPDX-License-Identifier: MIT */
/*
 * Time limits. The housekeeper ends an operation that runs past its deadline. The struct
 * is embedded in the object it limits. All fields are under registry.lock.
 */
#pragma once

#include <stdint.h>

struct broker;

struct deadline {
	int64_t at_ms; /* CLOCK_MONOTONIC; 0: not set */
	/*
	 * Called once the time is over. The deadline is cleared by then, and the function
	 * may set a new one.
	 */
	void (*passed)(struct deadline *deadline);
	struct deadline *parent, *left, *right; /* in broker->ops->deadlines */
	unsigned int steps_to_free; /* down to the nearest place without a deadline */
};

/* Replaces the deadline that is set, if any. */
void deadline_set(struct broker *broker, struct deadline *deadline, uint32_t ms,
		  void (*passed)(struct deadline *deadline));

/* Does nothing if no deadline is set. */
void deadline_clear(struct broker *broker, struct deadline *deadline);

/*
 * Calls passed() of deadlines whose time is over, the earliest first, but of some dozens
 * at a time. For the housekeeper, without registry.lock. Returns: milliseconds until the
 * next deadline; 0: the time of more is over; -1: there is none.
 */
int64_t deadlines_check(struct broker *broker);

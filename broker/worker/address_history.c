/* SPDX-License-Identifier: MIT */
#include "worker/address_history.h"

#include <string.h>

static bool seen_reserve(struct seen *seen)
{
	size_t capacity = seen->capacity ? 2 * seen->capacity : 16;
	struct seen_range *ranges;

	if (seen->n < seen->capacity)
		return true;
	ranges = reallocarray(seen->ranges, capacity, sizeof(*ranges));
	if (!ranges)
		return false;
	seen->ranges = ranges;
	seen->capacity = capacity;
	return true;
}

static bool seen_add_locked(struct seen *seen, uint64_t begin, uint64_t end)
{
	struct seen_range added = { begin, end };
	size_t first = 0, last;
	bool overlap = false;

	if (!seen_reserve(seen))
		return true;
	while (first < seen->n && seen->ranges[first].end < begin)
		first++;
	/* Merges the new range with all ranges that touch it. */
	for (last = first; last < seen->n && seen->ranges[last].begin <= end; last++) {
		const struct seen_range *range = &seen->ranges[last];

		overlap |= range->begin < end && begin < range->end;
		added.begin = MIN(added.begin, range->begin);
		added.end = MAX(added.end, range->end);
	}
	memmove(&seen->ranges[first + 1], &seen->ranges[last],
		(seen->n - last) * sizeof(*seen->ranges));
	seen->ranges[first] = added;
	seen->n = seen->n - (last - first) + 1;
	return overlap;
}

bool seen_add(struct seen *seen, uint64_t begin, uint64_t end)
{
	bool overlap;

	pthread_mutex_lock(&seen->lock);
	overlap = seen_add_locked(seen, begin, end);
	pthread_mutex_unlock(&seen->lock);
	return overlap;
}

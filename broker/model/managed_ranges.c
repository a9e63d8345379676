/* SPDX-License-Identifier: MIT */
#include "model/managed_ranges.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/def.h"

/* A change splits ranges at most at its two ends. */
#define ROOM_OF_CHANGE 2

struct managed *managed_new(uint64_t size)
{
	struct managed *managed = calloc(1, sizeof(*managed));

	if (!managed)
		return NULL;
	managed->ranges = calloc(1, sizeof(*managed->ranges));
	if (!managed->ranges) {
		free(managed);
		return NULL;
	}
	managed->size = size;
	managed->page = (uint64_t)getpagesize();
	managed->n_ranges = managed->capacity = 1;
	managed->ranges->on_host = true;
	return managed;
}

struct managed *managed_free(struct managed *managed, struct managed_totals *totals)
{
	if (!managed)
		return NULL;
	managed_uncount(managed, totals);
	free(managed->ranges);
	free(managed);
	return NULL;
}

int managed_reserve(struct managed *managed)
{
	uint32_t need = managed->n_ranges + managed->n_reserved + ROOM_OF_CHANGE;
	struct managed_range *ranges;

	if (need > MANAGED_RANGES_MAX)
		return -ENOSPC;
	if (need > managed->capacity) {
		uint32_t capacity = MAX(need, managed->capacity * 2);

		ranges = reallocarray(managed->ranges, capacity, sizeof(*ranges));
		if (!ranges)
			return -ENOMEM;
		managed->ranges = ranges;
		managed->capacity = capacity;
	}
	managed->n_reserved += ROOM_OF_CHANGE;
	return 0;
}

void managed_unreserve(struct managed *managed)
{
	managed->n_reserved -= ROOM_OF_CHANGE;
}

/* ---- ranges ---- */

static uint64_t range_end(const struct managed *managed, uint32_t i)
{
	return i + 1 < managed->n_ranges ? managed->ranges[i + 1].offset : managed->size;
}

/* The range that holds the offset. */
static uint32_t range_at(const struct managed *managed, uint64_t offset)
{
	uint32_t low = 0, high = managed->n_ranges;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (managed->ranges[middle].offset <= offset)
			low = middle;
		else
			high = middle;
	}
	return low;
}

const struct managed_range *managed_find(const struct managed *managed, uint64_t offset,
					 uint64_t *ret_end)
{
	uint32_t i = range_at(managed, offset);

	*ret_end = range_end(managed, i);
	return &managed->ranges[i];
}

/* Makes a range begin at the offset. Returns: the index of this range. */
static uint32_t range_split(struct managed *managed, uint64_t offset)
{
	uint32_t i = range_at(managed, offset);
	struct managed_range *range = &managed->ranges[i];

	if (range->offset == offset)
		return i;
	assert(managed->n_ranges < managed->capacity);
	memmove(range + 1, range, (managed->n_ranges - i) * sizeof(*range));
	range[1].offset = offset;
	managed->n_ranges++;
	return i + 1;
}

static bool ranges_are_alike(const struct managed_range *a, const struct managed_range *b)
{
	return a->read_mostly == b->read_mostly && a->preferred == b->preferred &&
	       a->accessed_by == b->accessed_by && a->prefetched == b->prefetched &&
	       a->on_host == b->on_host;
}

/* Joins equal neighbours among the ranges from first to last + 1. */
static void ranges_join(struct managed *managed, uint32_t first, uint32_t last)
{
	uint32_t end = MIN(last + 2, managed->n_ranges), kept = first;

	for (uint32_t i = first + 1; i < end; i++) {
		if (!ranges_are_alike(&managed->ranges[kept], &managed->ranges[i]))
			managed->ranges[++kept] = managed->ranges[i];
	}
	memmove(&managed->ranges[kept + 1], &managed->ranges[end],
		(managed->n_ranges - end) * sizeof(*managed->ranges));
	managed->n_ranges -= end - (kept + 1);
}

/* ---- totals ---- */

static void total_add(uint64_t *totals, uint16_t location, uint64_t bytes)
{
	unsigned int place = location_place(location);

	if (place != LOCATION_NONE)
		totals[place == LOCATION_DEVICE ? location_number(location)
						: MANAGED_PLACE_HOST] += bytes;
}

/* Adds bytes to the totals of the range; a negative number wraps around and subtracts. */
static void range_add(const struct managed_range *range, struct managed_totals *totals,
		      uint64_t bytes)
{
	total_add(totals->preferred, range->preferred, bytes);
	total_add(totals->prefetched, range->prefetched, bytes);
}

void managed_count(struct managed *managed, struct managed_totals *totals)
{
	if (managed->counted)
		return;
	managed->counted = true;
	for (uint32_t i = 0; i < managed->n_ranges; i++)
		range_add(&managed->ranges[i], totals,
			  range_end(managed, i) - managed->ranges[i].offset);
}

void managed_uncount(struct managed *managed, struct managed_totals *totals)
{
	if (!managed->counted)
		return;
	managed->counted = false;
	for (uint32_t i = 0; i < managed->n_ranges; i++)
		range_add(&managed->ranges[i], totals,
			  managed->ranges[i].offset - range_end(managed, i));
}

/* ---- changes ---- */

static void range_set(struct managed_range *range, enum managed_change change,
		      uint16_t value)
{
	switch (change) {
	case MANAGED_READ_MOSTLY:
		range->read_mostly = value;
		break;
	case MANAGED_PREFERRED:
		range->preferred = value;
		break;
	case MANAGED_ACCESSED_BY:
		range->accessed_by |= location_set_bit(value);
		break;
	case MANAGED_UNACCESSED_BY:
		range->accessed_by &= ~location_set_bit(value);
		break;
	case MANAGED_PREFETCHED:
		range->prefetched = value;
		range->on_host = location_place(value) != LOCATION_DEVICE;
		break;
	}
}

void managed_set(struct managed *managed, struct managed_totals *totals, uint64_t offset,
		 uint64_t length, enum managed_change change, uint16_t value)
{
	uint64_t end = MIN(align_up(offset + length, managed->page), managed->size);
	uint32_t first, last;

	first = range_split(managed, offset & ~(managed->page - 1));
	last = end < managed->size ? range_split(managed, end) - 1
				   : managed->n_ranges - 1;
	for (uint32_t i = first; i <= last; i++) {
		struct managed_range *range = &managed->ranges[i];
		uint64_t bytes = range_end(managed, i) - range->offset;

		if (managed->counted)
			range_add(range, totals, -bytes);
		range_set(range, change, value);
		if (managed->counted)
			range_add(range, totals, bytes);
	}
	ranges_join(managed, first ? first - 1 : 0, last);
}

/* ---- the host ---- */

bool managed_is_on_host(const struct managed *managed, uint64_t offset, uint64_t length)
{
	return managed->ranges[range_at(managed, offset)].on_host &&
	       managed_alike(managed, offset, length) == length;
}

uint64_t managed_alike(const struct managed *managed, uint64_t offset, uint64_t length)
{
	uint32_t i = range_at(managed, offset);
	bool on_host = managed->ranges[i].on_host;

	while (++i < managed->n_ranges && managed->ranges[i].offset < offset + length) {
		if (managed->ranges[i].on_host != on_host)
			return managed->ranges[i].offset - offset;
	}
	return length;
}

void managed_leave_host(struct managed *managed, uint64_t offset, uint64_t length)
{
	uint32_t first = range_at(managed, offset), i = first;
	bool changed = false;

	for (; i < managed->n_ranges && managed->ranges[i].offset < offset + length;
	     i++) {
		changed |= managed->ranges[i].on_host;
		managed->ranges[i].on_host = false;
	}
	if (changed)
		ranges_join(managed, first ? first - 1 : 0, i - 1);
}

/* SPDX-License-Identifier: MIT */
/*
 * Requests to the driver for managed memory: attachment, advice and last prefetch by
 * range, and totals over all managed memory.
 *
 * The records are plain values. Another worker makes the memory again from these records,
 * and `status` shows their totals. `advise` and `last_prefetch` ask the driver instead.
 *
 * The unit is the driver's page: a range covers every page that it touches. Bytes are
 * counted up to the size of the allocation.
 *
 * All under the registry's lock.
 */
#pragma once

#include <gpumem/location.h>

#define MANAGED_PLACES	   17 /* devices 0 to 15, then the host with all its nodes */
#define MANAGED_PLACE_HOST 16

/* Limit of different ranges in one allocation. */
#define MANAGED_RANGES_MAX 65536

enum managed_attach {
	ATTACH_GLOBAL,
	ATTACH_HOST,
	ATTACH_SINGLE, /* to the allocation's stream */
};

/* Goes from offset to the begin of the next range. Locations are of gpumem/location.h. */
struct managed_range {
	uint64_t offset;
	uint32_t accessed_by; /* set of locations */
	uint16_t preferred;
	uint16_t prefetched; /* last prefetch */
	bool read_mostly;
	bool on_host; /* no GPU has used the range since it was made or prefetched to the
			 host */
};

struct managed_totals {
	uint64_t preferred[MANAGED_PLACES];
	uint64_t prefetched[MANAGED_PLACES];
};

struct managed {
	uint64_t size;
	uint64_t page;
	uint8_t attach;	     /* enum managed_attach */
	bool counted;	     /* in the totals, because the worker lives */
	struct work *parked; /* works that wait for the end of restoring */
	uint32_t n_ranges, capacity;
	uint32_t n_reserved; /* room for changes under way */
	struct managed_range *ranges;
};

/* The property that a change sets for a range. */
enum managed_change {
	MANAGED_READ_MOSTLY, /* value: 0 or 1 */
	MANAGED_PREFERRED,   /* value: a location; LOCATION_NONE removes the preference */
	MANAGED_ACCESSED_BY, /* value: a location to add to the set */
	MANAGED_UNACCESSED_BY,
	MANAGED_PREFETCHED, /* value: a location */
};

/* Ranges of a new allocation without advice; not counted. NULL: no memory. */
struct managed *managed_new(uint64_t size);

/* Takes NULL. Subtracts a counted allocation from the totals. Returns: NULL. */
struct managed *managed_free(struct managed *managed, struct managed_totals *totals);

/*
 * Reserves room so that a change can't fail. The change is one managed_set(), or several
 * for its parts, and ends with managed_unreserve().
 * Returns: 0; -ENOMEM; -ENOSPC when there are MANAGED_RANGES_MAX ranges.
 */
int managed_reserve(struct managed *managed);
void managed_unreserve(struct managed *managed);

/* Notes a change that the driver has made, for every page of the range. */
void managed_set(struct managed *managed, struct managed_totals *totals, uint64_t offset,
		 uint64_t length, enum managed_change change, uint16_t value);

/*
 * managed_is_on_host(): whether the whole range is certainly on the host.
 * managed_alike(): number of bytes from offset on with the same answer.
 * managed_leave_host(): notes that a GPU uses the range, so the range may leave the host.
 */
bool managed_is_on_host(const struct managed *managed, uint64_t offset, uint64_t length);
uint64_t managed_alike(const struct managed *managed, uint64_t offset, uint64_t length);
void managed_leave_host(struct managed *managed, uint64_t offset, uint64_t length);

/* Adds to the totals, and subtracts: memory lost with its worker is in no total. */
void managed_count(struct managed *managed, struct managed_totals *totals);
void managed_uncount(struct managed *managed, struct managed_totals *totals);

/* The range that holds an offset, and its end. */
const struct managed_range *managed_find(const struct managed *managed, uint64_t offset,
					 uint64_t *ret_end);

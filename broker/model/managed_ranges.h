/* SPDX-License-Identifier: MIT */
/*
 * What was asked of the driver for managed memory and done: its attachment, advice and
 * last prefetch by range, and the totals over all of it.
 *
 * The records are plain values: from them the memory is made again in another worker, and
 * from them come the totals of `status`. What `advise` and `last_prefetch` show is asked
 * of the driver, not taken from here.
 *
 * Pages are the unit, as they are the driver's: a range stands for every page that it
 * touches. Bytes are counted up to the size.
 *
 * All under the registry's lock.
 */
#pragma once

#include "base/def.h"

#include <gpumem/location.h>

#define MANAGED_PLACES	   17 /* devices 0 to 15, then the host with all its nodes */
#define MANAGED_PLACE_HOST 16

/* Ranges of one allocation that differ. */
#define MANAGED_RANGES_MAX 65536

enum managed_attach {
	ATTACH_GLOBAL,
	ATTACH_HOST,
	ATTACH_SINGLE, /* to the allocation's stream */
};

/* From offset up to where the next one begins. Locations are of gpumem/location.h. */
struct managed_range {
	uint64_t offset;
	uint32_t accessed_by; /* set of locations */
	uint16_t preferred;
	uint16_t prefetched; /* last */
	bool read_mostly;
	bool on_host; /* no GPU has used it since it was made or sent there */
};

struct managed_totals {
	uint64_t preferred[MANAGED_PLACES];
	uint64_t prefetched[MANAGED_PLACES];
};

struct managed {
	uint64_t size;
	uint64_t page;
	uint8_t attach; /* enum managed_attach */
	bool counted;	/* in the totals: its worker lives */
	uint32_t n_ranges, capacity;
	uint32_t n_reserved; /* room that changes under way may need */
	struct managed_range *ranges;
};

/* What a change sets; a range of the memory has it from then on. */
enum managed_change {
	MANAGED_READ_MOSTLY, /* value: 0 or 1 */
	MANAGED_PREFERRED,   /* value: a location, LOCATION_NONE for none */
	MANAGED_ACCESSED_BY, /* value: a location to add to the set */
	MANAGED_UNACCESSED_BY,
	MANAGED_PREFETCHED, /* value: a location */
};

/* Bytes of a new allocation, nothing said of any; not counted. NULL: no memory. */
struct managed *managed_new(uint64_t size);

/* Takes NULL, and what is counted out of the totals. Returns: NULL. */
struct managed *managed_free(struct managed *managed, struct managed_totals *totals);

/*
 * Sees to it that a change can't fail, until managed_unreserve(): it is noted by one
 * managed_set() or, part by part, by several.
 * Returns: 0; -ENOMEM; -ENOSPC when there are MANAGED_RANGES_MAX ranges.
 */
int managed_reserve(struct managed *managed);
void managed_unreserve(struct managed *managed);

/* The driver has done it for the pages of a range inside. */
void managed_set(struct managed *managed, struct managed_totals *totals, uint64_t offset,
		 uint64_t length, enum managed_change change, uint16_t value);

/*
 * Whether a range is on the host for sure; how much of it from the offset on is alike in
 * that; a GPU uses it, so it may not be there any more.
 */
bool managed_is_on_host(const struct managed *managed, uint64_t offset, uint64_t length);
uint64_t managed_alike(const struct managed *managed, uint64_t offset, uint64_t length);
void managed_leave_host(struct managed *managed, uint64_t offset, uint64_t length);

/* In and out of the totals: what is lost with its worker is nowhere. */
void managed_count(struct managed *managed, struct managed_totals *totals);
void managed_uncount(struct managed *managed, struct managed_totals *totals);

/* The range that holds an offset, and where it ends. */
const struct managed_range *managed_find(const struct managed *managed, uint64_t offset,
					 uint64_t *ret_end);

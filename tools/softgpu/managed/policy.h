/* SPDX-License-Identifier: MIT */
/* Advice and prefetches of ranges of managed memory, as the program asked for them. */
#pragma once

#include "softgpu/call.h"
#include "softgpu/options.h"

#define POLICY_PAGE   ((uint64_t)4096)

#define LOCATION_NONE ((CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_INVALID })

/* accessed_by has a bit for each device, then a bit for the host. */
#define ACCESSED_BY_HOST (1U << OPTIONS_MAX_DEVICES)

struct policy {
	bool read_mostly;
	uint32_t accessed_by;
	CUmemLocation preferred;
	CUmemLocation preferred_told; /* as reported by attributes */
	CUmemLocation prefetched;
};

/* Pages from `first` up to the next stretch. */
struct stretch {
	size_t first;
	struct policy policy;
};

/* The policies of an allocation; two stretches side by side differ. */
struct policies {
	struct stretch *stretches;
	size_t n;
	size_t n_pages; /* of 4 KiB */
};

/* Returns: false without memory. policies_deinit() may be called in any case. */
bool policies_init(struct policies *policies, size_t n_pages);
void policies_deinit(struct policies *policies);

const struct policy *policies_at(const struct policies *policies, size_t page);

/*
 * Calls change with the policy of every stretch of the pages [from, to), which are split
 * off. Returns: false without memory, and nothing is changed.
 */
bool policies_change(struct policies *policies, size_t from, size_t to,
		     void (*change)(struct policy *policy, const void *data),
		     const void *data);

/*
 * The policy common to all pages [from, to): read_mostly and accessed_by as far as all
 * pages have it, a location if all pages have the same.
 */
struct policy policies_common(const struct policies *policies, size_t from, size_t to);

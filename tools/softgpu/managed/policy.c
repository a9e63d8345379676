/* SPDX-License-Identifier: MIT */
/*
 * Policies by range: a sorted array of stretches that covers the whole allocation. Advice
 * holds for whole CPU pages, as on hardware; where the pages are is residency.c's.
 */
#include "policy.h"

#include <string.h>

static bool location_is(const CUmemLocation *a, const CUmemLocation *b)
{
	return a->type == b->type && a->id == b->id;
}

static bool policy_is(const struct policy *a, const struct policy *b)
{
	return a->read_mostly == b->read_mostly && a->accessed_by == b->accessed_by &&
	       location_is(&a->preferred, &b->preferred) &&
	       location_is(&a->preferred_told, &b->preferred_told) &&
	       location_is(&a->prefetched, &b->prefetched);
}

bool policies_init(struct policies *policies, size_t n_pages)
{
	*policies = (struct policies){ .n_pages = n_pages };
	policies->stretches = calloc(1, sizeof(*policies->stretches));
	policies->n = policies->stretches ? 1 : 0;
	return policies->n;
}

void policies_deinit(struct policies *policies)
{
	free(policies->stretches);
	policies->stretches = NULL;
}

/* The index of the stretch that a page is in. */
static size_t stretch_find(const struct policies *policies, size_t page)
{
	size_t low = 0, high = policies->n;

	while (high - low > 1) {
		const size_t middle = (low + high) / 2;

		if (policies->stretches[middle].first <= page)
			low = middle;
		else
			high = middle;
	}
	return low;
}

const struct policy *policies_at(const struct policies *policies, size_t page)
{
	return &policies->stretches[stretch_find(policies, page)].policy;
}

/* Makes a stretch begin at a page. There is room for another. Returns: the index. */
static size_t stretch_split(struct policies *policies, size_t page)
{
	const size_t i = stretch_find(policies, page);
	struct stretch *stretch = &policies->stretches[i];

	if (page == policies->n_pages)
		return policies->n;
	if (stretch->first == page)
		return i;
	memmove(stretch + 1, stretch, (policies->n - i) * sizeof(*stretch));
	stretch[1].first = page;
	policies->n++;
	return i + 1;
}

static void stretches_join(struct policies *policies)
{
	size_t n = 1;

	for (size_t i = 1; i < policies->n; i++)
		if (!policy_is(&policies->stretches[i].policy,
			       &policies->stretches[n - 1].policy))
			policies->stretches[n++] = policies->stretches[i];
	policies->n = n;
}

bool policies_change(struct policies *policies, size_t from, size_t to,
		     void (*change)(struct policy *policy, const void *data),
		     const void *data)
{
	struct stretch *grown = reallocarray(policies->stretches, policies->n + 2,
					     sizeof(*policies->stretches));
	size_t first, end;

	if (!grown)
		return false;
	policies->stretches = grown;
	first = stretch_split(policies, from);
	end = stretch_split(policies, to);
	for (size_t i = first; i < end; i++)
		change(&policies->stretches[i].policy, data);
	stretches_join(policies);
	return true;
}

static void policy_join(struct policy *common, const struct policy *policy)
{
	common->read_mostly &= policy->read_mostly;
	common->accessed_by &= policy->accessed_by;
	if (!location_is(&common->preferred, &policy->preferred))
		common->preferred = LOCATION_NONE;
	if (!location_is(&common->preferred_told, &policy->preferred_told))
		common->preferred_told = LOCATION_NONE;
	if (!location_is(&common->prefetched, &policy->prefetched))
		common->prefetched = LOCATION_NONE;
}

struct policy policies_common(const struct policies *policies, size_t from, size_t to)
{
	size_t i = stretch_find(policies, from);
	struct policy common = policies->stretches[i].policy;

	for (i++; i < policies->n && policies->stretches[i].first < to; i++)
		policy_join(&common, &policies->stretches[i].policy);
	return common;
}

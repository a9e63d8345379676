/* SPDX-License-Identifier: MIT */
/*
 * The unified address space: a sorted array of the ranges known to the driver, whoever
 * made them. Ranges never overlap.
 *
 * Every copy and fill asks first: is this memory for a GPU to use, the process's own
 * (pageable) memory, or a mistake? A single range must hold the whole stretch, except
 * that mappings side by side count as one, as on hardware. Reservations are vmm.c's; an
 * address inside a reservation where nothing is mapped is a mistake.
 *
 * All functions run under the library's lock.
 */
#include "space.h"

#include "softgpu/context.h"
#include "vmm.h"

#include <string.h>

static struct range **ranges;
static size_t n_ranges;
static size_t capacity;
static uint64_t last_id;
static uint64_t epoch; /* written under the library's lock, read by kernels */

const uint64_t *space_epoch(void)
{
	return &epoch;
}

void space_changed(void)
{
	__atomic_fetch_add(&epoch, 1, __ATOMIC_RELEASE);
}

/* The index of the first range that ends after the address. */
static size_t space_index(uint64_t address)
{
	size_t low = 0, high = n_ranges;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (range_end(ranges[middle]) <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool space_grow(void)
{
	struct range **grown;

	if (n_ranges < capacity)
		return true;
	grown = realloc(ranges, MAX((size_t)64, capacity * 2) * sizeof(struct range *));
	if (!grown)
		return false;
	ranges = grown;
	capacity = MAX((size_t)64, capacity * 2);
	return true;
}

struct range *space_add(const struct range *range)
{
	struct range *kept = malloc(sizeof(*kept));
	size_t i = space_index(range->start);

	if (!kept || !space_grow()) {
		free(kept);
		return NULL;
	}
	*kept = *range;
	kept->id = ++last_id;
	memmove(ranges + i + 1, ranges + i, (n_ranges - i) * sizeof(*ranges));
	ranges[i] = kept;
	n_ranges++;
	space_changed();
	return kept;
}

void space_remove(struct range *range)
{
	size_t i = space_index(range->start);

	space_changed();
	n_ranges--;
	memmove(ranges + i, ranges + i + 1, (n_ranges - i) * sizeof(*ranges));
	free(range);
}

struct range *space_overlap(uint64_t start, uint64_t size)
{
	size_t i = space_index(start);

	if (i == n_ranges || ranges[i]->start >= start + size)
		return NULL;
	return ranges[i];
}

struct range *space_find(uint64_t address)
{
	return space_overlap(address, 1);
}

struct range *space_of_context(const struct context *context)
{
	for (size_t i = 0; i < n_ranges; i++)
		if (ranges[i]->context == context)
			return ranges[i];
	return NULL;
}

unsigned int range_access(const struct range *range)
{
	unsigned int access = 0;

	if (range->kind != RANGE_MAPPING)
		return range->read_only ? CU_MEM_ACCESS_FLAGS_PROT_READ
					: CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	for (int i = 0; i < options.n_devices; i++)
		access |= range->access[i];
	return access;
}

unsigned int range_device_access(const struct range *range, const struct context *context)
{
	switch (range->kind) {
	case RANGE_MAPPING:
		return range->access[context->device];
	case RANGE_MEMORY:
	case RANGE_MODULE:
		if (range->device == context->device || context->peers[range->device])
			return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
		return CU_MEM_ACCESS_FLAGS_PROT_NONE;
	case RANGE_POOL:
		return range->device == context->device
			       ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
			       : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	default:
		return range_access(range);
	}
}

/* A copy is done by the current device, or by the owner of the memory. */
static unsigned int range_copy_access(const struct range *range)
{
	const struct context *context = context_current();

	if (range->kind != RANGE_MAPPING)
		return range_access(range);
	return range->access[range->device] |
	       (context ? range->access[context->device] : 0U);
}

enum span space_span(uint64_t start, uint64_t size, unsigned int access)
{
	const uint64_t end = start + size;
	size_t i = space_index(start);

	if (end < start)
		return SPAN_BROKEN;
	if (!space_overlap(start, size))
		return vmm_is_reserved(start, size) ? SPAN_BROKEN : SPAN_OUTSIDE;

	for (uint64_t at = start; at < end; at = range_end(ranges[i++])) {
		const struct range *range = i < n_ranges ? ranges[i] : NULL;

		if (!range || range->start > at || range->freeing)
			return SPAN_BROKEN;
		if ((range_copy_access(range) & access) != access)
			return SPAN_BROKEN;
		if (range->kind != RANGE_MAPPING)
			return range_end(range) >= end && at == start ? SPAN_INSIDE
								      : SPAN_BROKEN;
	}
	return SPAN_INSIDE;
}

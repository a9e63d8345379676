/* SPDX-License-Identifier: MIT */
/*
 * Where pages of managed memory go: NVIDIA's documentation of faults, prefetches and
 * advice, for pages of 2 MiB.
 *
 * On an access to a page at another place, the page
 *   - is made there, if it is nowhere yet, or at the preferred location
 *   - is copied, if it is read and advised as mostly read; a write drops all other copies
 *   - stays and is used from afar, if it is at the preferred location or the device is
 *     among those set as accessing the page; the host can't use devices' memory so
 *   - else moves.
 *
 * A page without room on the device, because nothing there can be evicted, stays and is
 * used from afar.
 */
#include "managed.h"
#include "softgpu/context.h"
#include "softgpu/run/stream.h"
#include "softgpu/softgpu.h"

#include <sched.h>

/*
 * The processor that accesses: the places of its own memory, and the place for new pages.
 */
struct reach {
	uint32_t own;
	uint32_t fresh;
	uint32_t accessed_by; /* the processor's bit in policies */
};

static uint32_t node_current(void)
{
	unsigned int cpu, node;

	if (getcpu(&cpu, &node) < 0 || node >= (unsigned int)options.n_nodes)
		node = 0;
	return WHERE_NODE(node);
}

static struct reach reach_device(int device)
{
	const uint32_t bit = WHERE_DEVICE(device);

	return (struct reach){ bit, bit, bit };
}

static struct reach reach_host(void)
{
	return (struct reach){ WHERE_HOST, node_current(), ACCESSED_BY_HOST };
}

/* All places that a location means; none for no location. */
static uint32_t location_places(const CUmemLocation *location)
{
	switch ((int)location->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return WHERE_DEVICE(location->id);
	case CU_MEM_LOCATION_TYPE_HOST:
		return WHERE_HOST;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		return WHERE_NODE(location->id);
	default:
		return 0;
	}
}

/* The places at a location that a new page may get. */
static uint32_t location_place(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_HOST ? node_current()
							   : location_places(location);
}

static uint32_t place_one(uint32_t places)
{
	return places & -places;
}

static uint32_t populate(const struct policy *policy, const struct reach *reach)
{
	const uint32_t preferred = location_place(&policy->preferred);

	if (!preferred || (reach->own == WHERE_HOST && preferred & WHERE_DEVICES))
		return reach->fresh;
	return preferred;
}

static bool stays(uint32_t where, const struct policy *policy, const struct reach *reach)
{
	if (reach->own == WHERE_HOST)
		return false;
	return location_places(&policy->preferred) & where ||
	       policy->accessed_by & reach->accessed_by;
}

static uint32_t after_access(uint32_t where, const struct policy *policy,
			     const struct reach *reach, bool write)
{
	if (!where)
		return populate(policy, reach);
	if (where & reach->own)
		return write ? where & reach->own : where;
	if (policy->read_mostly)
		return write ? reach->fresh : where | reach->fresh;
	return stays(where, policy, reach) ? where : reach->fresh;
}

static uint32_t after_copy(uint32_t where, const struct policy *policy,
			   const struct reach *reach, bool write)
{
	if (!where)
		return populate(policy, reach);
	if (!(where & WHERE_DEVICES))
		return after_access(where, policy, reach, write);
	if (!write)
		return where;
	return where & reach->own ? where & reach->own : place_one(where);
}

static uint32_t after_prefetch(uint32_t where, const struct policy *policy,
			       const CUmemLocation *location)
{
	const uint32_t there = where & location_places(location);
	const uint32_t place = there ? there : location_place(location);

	if (!policy->read_mostly)
		return place;
	if (place & WHERE_HOST)
		where &= WHERE_DEVICES;
	return where | place;
}

static uint32_t after_collapse(uint32_t where, const struct policy *policy)
{
	const uint32_t preferred = where & location_places(&policy->preferred);

	return place_one(preferred ? preferred : where);
}

static void page_move(struct residency *residency, size_t page, uint32_t where)
{
	const uint32_t before = residency_where(residency, page);

	if (where == before || residency_move(residency, page, where))
		return;
	if (!before)
		residency_move(residency, page, node_current());
}

/* A stretch of a range, page by page of 2 MiB. */
struct walk {
	struct managed *managed;
	size_t page;
	size_t end;
	uint64_t from; /* bytes from the range's start */
};

static struct walk walk_begin(const struct range *range, uint64_t from, uint64_t to)
{
	return (struct walk){
		.managed = range->owner,
		.page = (size_t)((from - range->start) / RESIDENCY_PAGE),
		.end = (size_t)((to - range->start + RESIDENCY_PAGE - 1) /
				RESIDENCY_PAGE),
		.from = from - range->start,
	};
}

/* The action for the first bytes of the walk in the page. */
static const struct policy *walk_policy(const struct walk *walk)
{
	const uint64_t at = MAX(walk->from, walk->page * RESIDENCY_PAGE);

	return policies_at(&walk->managed->policies, (size_t)(at / POLICY_PAGE));
}

static uint32_t walk_where(const struct walk *walk)
{
	return residency_where(&walk->managed->residency, walk->page);
}

static void walk_move(const struct walk *walk, uint32_t where)
{
	page_move(&walk->managed->residency, walk->page, where);
}

void managed_prefetch(struct range *range, uint64_t from, uint64_t to,
		      const CUmemLocation *location)
{
	struct walk walk = walk_begin(range, from, to);

	for (; walk.page < walk.end; walk.page++)
		walk_move(&walk, after_prefetch(walk_where(&walk), walk_policy(&walk),
						location));
}

void managed_collapse(struct range *range, uint64_t from, uint64_t to)
{
	struct walk walk = walk_begin(range, from, to);

	for (; walk.page < walk.end; walk.page++)
		walk_move(&walk, after_collapse(walk_where(&walk), walk_policy(&walk)));
}

typedef uint32_t after_fn(uint32_t where, const struct policy *policy,
			  const struct reach *reach, bool write);

/* Under the library's lock. */
static void access_pages(const struct range *range, uint64_t address, uint64_t length,
			 const struct reach *reach, bool write, after_fn *after)
{
	struct walk walk =
		walk_begin(range, address, MIN(address + length, range_end(range)));

	for (; options.concurrent && walk.page < walk.end; walk.page++)
		walk_move(&walk,
			  after(walk_where(&walk), walk_policy(&walk), reach, write));
}

/* A destroyed stream takes the attachment along once the work is done. */
static void attach_look(struct managed *managed)
{
	const struct stream *stream = managed->stream;

	if (!stream || !stream->ending || !stream_has_done(stream, stream->n_queued))
		return;
	managed->stream = stream_unref(managed->stream);
	managed->attached = managed->attached_at_first;
}

static bool attach_allows(struct managed *managed, const struct stream *stream)
{
	if (options.concurrent)
		return true;
	attach_look(managed);
	return managed->attached == CU_MEM_ATTACH_GLOBAL || managed->stream == stream;
}

static struct range *range_at(uint64_t address)
{
	struct range *range = space_find(address);

	return range && range->kind == RANGE_MANAGED ? range : NULL;
}

CUresult managed_touch(const struct stream *stream, uint64_t address, uint64_t length,
		       bool write)
{
	const struct reach reach = reach_device(stream->context->device);
	CUresult result = CUDA_SUCCESS;
	struct range *range;

	call_lock();
	range = range_at(address);
	if (range && !attach_allows(range->owner, stream))
		result = CUDA_ERROR_ILLEGAL_ADDRESS;
	else if (range)
		access_pages(range, address, length, &reach, write, after_access);
	call_unlock();
	return result;
}

void managed_copied(const struct stream *stream, uint64_t address, uint64_t length,
		    bool write)
{
	const struct reach reach = reach_device(stream->context->device);
	struct range *range;

	call_lock();
	range = range_at(address);
	if (range)
		access_pages(range, address, length, &reach, write, after_copy);
	call_unlock();
}

void softgpu_host_access(const void *at, size_t length, int write)
{
	const uint64_t address = (uint64_t)(uintptr_t)at;
	const struct reach reach = reach_host();
	struct range *range;

	call_lock();
	range = range_at(address);
	if (range)
		access_pages(range, address, length, &reach, write, after_access);
	call_unlock();
}

uint32_t softgpu_where(const void *at)
{
	const uint64_t address = (uint64_t)(uintptr_t)at;
	struct range *range;
	uint32_t where = 0;

	call_lock();
	range = range_at(address);
	if (range) {
		const struct walk walk = walk_begin(range, address, address + 1);

		where = walk_where(&walk);
	}
	call_unlock();
	return where;
}

/* SPDX-License-Identifier: MIT */
/*
 * Managed memory.
 *
 * Each allocation has whole blocks of the driver (2 MiB) to itself. Smaller allocations
 * could share a block, and advice for an allocation would then also change its neighbour.
 *
 * Fresh managed memory has no pages. The kernel zeroes a page at the first touch,
 * wherever this happens. So fresh memory reads as zeros, costs nothing until used, and
 * appears at the place of use. The driver may have kept old pages at addresses that this
 * process used before; only such memory is filled with zeros.
 *
 * The driver is asked for the properties of a range. The answer covers the whole range: a
 * value if all pages have this value, else none. So "none" can hide pages with a value. A
 * run of equal pages is therefore found by asking for the range and for single pages
 * inside: for every page up to N_PROBES, else for N_PROBES pages spread evenly. When the
 * answers differ the range is halved. Each step takes 1 + N_PROBES calls, and there are
 * as many steps as halvings down to a page. Ranges up to N_PROBES pages are always exact.
 */
#include "worker/managed.h"

#include <errno.h>

#include "worker/worker.h"

#define BLOCK	 (2ull << 20)
#define N_PROBES 256

_Static_assert((int)WIRE_SET_READ_MOSTLY == CU_MEM_ADVISE_SET_READ_MOSTLY &&
		       (int)WIRE_UNSET_ACCESSED_BY == CU_MEM_ADVISE_UNSET_ACCESSED_BY,
	       "advice is numbered as in CUDA");

/* ---- allocation ---- */

static int managed_zero(struct worker *worker, struct job *job, CUdeviceptr address,
			struct cuda_failure *failure)
{
	int r;

	r = CUDA(worker->driver, failure, cuMemsetD8Async, address, 0,
		 job->request.length, job->stream);
	return stream_wait(worker, job, r, failure);
}

int managed_alloc(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	unsigned int attach = job->request.flags & WIRE_ATTACH_HOST
				      ? CU_MEM_ATTACH_HOST
				      : CU_MEM_ATTACH_GLOBAL;
	uint64_t size = align_up(job->request.length, BLOCK);
	CUdeviceptr address;
	int r;

	if (size < job->request.length)
		return -ENOMEM;
	r = CUDA(worker->driver, failure, cuMemAllocManaged, &address, size, attach);
	if (r < 0)
		return r;
	if (seen_add(&worker->managed_seen, address, address + size)) {
		r = managed_zero(worker, job, address, failure);
		if (r < 0) {
			CUDA(worker->driver, NULL, cuMemFree_v2, address);
			return r;
		}
	}
	job->value[0] = address;
	return 0;
}

/* ---- prefetch, advice, attachment ---- */

static CUmemLocation location_of(uint16_t location)
{
	static const CUmemLocationType types[N_LOCATION_PLACES] = {
		[LOCATION_CPU] = CU_MEM_LOCATION_TYPE_HOST,
		[LOCATION_NUMA] = CU_MEM_LOCATION_TYPE_HOST_NUMA,
		[LOCATION_DEVICE] = CU_MEM_LOCATION_TYPE_DEVICE,
	};

	return (CUmemLocation){ .type = types[location_place(location)],
				.id = (int)location_number(location) };
}

/* For the older calls, where a location is a device or the CPU. */
static CUdevice device_of(const struct worker *worker, uint16_t location)
{
	return location_place(location) == LOCATION_DEVICE
		       ? worker->devices[location_number(location)].handle
		       : CU_DEVICE_CPU;
}

static bool location_is_there(const struct worker *worker, uint16_t location)
{
	return location_place(location) != LOCATION_DEVICE ||
	       location_number(location) < worker->n_devices;
}

/* A NUMA node always takes the newer call, whose failure names the missing function. */
static bool driver_takes_locations(const struct worker *worker, int call,
				   uint16_t location)
{
	return cuda_driver_has(worker->driver, call) ||
	       location_place(location) == LOCATION_NUMA;
}

int managed_prefetch(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	const struct wire_request *request = &job->request;
	uint16_t location = (uint16_t)request->location;
	int r;

	if (!location_is_there(worker, location))
		return -ENODEV;
	if (driver_takes_locations(worker, CUDA_ROW(cuMemPrefetchAsync_v2), location))
		r = CUDA(worker->driver, failure, cuMemPrefetchAsync_v2, request->address,
			 request->length, location_of(location), 0, job->stream);
	else
		r = CUDA(worker->driver, failure, cuMemPrefetchAsync, request->address,
			 request->length, device_of(worker, location), job->stream);
	return stream_wait(worker, job, r, failure);
}

int managed_advise(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	const struct wire_request *request = &job->request;
	CUmem_advise advice = (CUmem_advise)request->advice;
	uint16_t location = (uint16_t)request->location;

	/*
	 * Some advice has no location, but the driver checks the argument all the same.
	 */
	if (!location)
		location = location_make(LOCATION_DEVICE, request->device);
	if (!location_is_there(worker, location))
		return -ENODEV;
	if (driver_takes_locations(worker, CUDA_ROW(cuMemAdvise_v2), location))
		return CUDA(worker->driver, failure, cuMemAdvise_v2, request->address,
			    request->length, advice, location_of(location));
	return CUDA(worker->driver, failure, cuMemAdvise, request->address,
		    request->length, advice, device_of(worker, location));
}

int managed_attach(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	uint32_t flags = job->request.flags;
	unsigned int attach = flags & WIRE_ATTACH_HOST	   ? CU_MEM_ATTACH_HOST
			      : flags & WIRE_ATTACH_STREAM ? CU_MEM_ATTACH_SINGLE
							   : CU_MEM_ATTACH_GLOBAL;
	int r;

	/* Length zero stands for the whole allocation. */
	r = CUDA(worker->driver, failure, cuStreamAttachMemAsync, job->stream,
		 job->request.address, 0, attach);
	return stream_wait(worker, job, r, failure);
}

/* ---- properties of ranges ---- */

enum { READ_MOSTLY, ACCESSED_BY, PREFERRED, PREFETCHED, PREFERRED_ID, PREFETCHED_ID };

#define N_OLD_ATTRIBUTES PREFERRED_ID /* for drivers with devices and the CPU only */
#define N_ATTRIBUTES	 (PREFETCHED_ID + 1)

struct said {
	int accessed_by[WIRE_DEVICES_MAX + 1];
	int number[N_ATTRIBUTES];
};

static uint16_t location_from(int type, int id)
{
	switch (type) {
	case CU_MEM_LOCATION_TYPE_HOST:
		return location_make(LOCATION_CPU, 0);
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		return location_make(LOCATION_NUMA, (unsigned int)id);
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return location_make(LOCATION_DEVICE, (unsigned int)id);
	default:
		return 0;
	}
}

static uint16_t location_from_device(int device)
{
	if (device == CU_DEVICE_CPU)
		return location_make(LOCATION_CPU, 0);
	return device >= 0 ? location_make(LOCATION_DEVICE, (unsigned int)device) : 0;
}

static uint32_t said_accessed_by(const struct said *said, unsigned int n)
{
	uint32_t set = 0;

	for (unsigned int i = 0; i < n; i++) {
		uint16_t location = location_from_device(said->accessed_by[i]);

		if (location)
			set |= location_set_bit(location);
	}
	return set;
}

/* In the format of WIRE_RANGE's answer. */
static uint64_t said_value(const struct said *said, unsigned int n_accessed_by, bool old)
{
	const int *number = said->number;
	uint16_t preferred, prefetched;

	if (old) {
		preferred = location_from_device(number[PREFERRED]);
		prefetched = location_from_device(number[PREFETCHED]);
	} else {
		preferred = location_from(number[PREFERRED], number[PREFERRED_ID]);
		prefetched = location_from(number[PREFETCHED], number[PREFETCHED_ID]);
	}
	return preferred | (uint64_t)prefetched << 16 |
	       (uint64_t)said_accessed_by(said, n_accessed_by) << 32 |
	       (number[READ_MOSTLY] ? WIRE_RANGE_READ_MOSTLY : 0);
}

static int range_ask(struct worker *worker, uint64_t from, uint64_t to,
		     uint64_t *ret_value, struct cuda_failure *failure)
{
	bool old = !cuda_driver_has(worker->driver, CUDA_ROW(cuMemAdvise_v2));
	CUmem_range_attribute attributes[N_ATTRIBUTES] = {
		[READ_MOSTLY] = CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
		[ACCESSED_BY] = CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
		[PREFERRED] = old ? CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION
				  : CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE,
		[PREFETCHED] = old ? CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION
				   : CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE,
		[PREFERRED_ID] = CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID,
		[PREFETCHED_ID] = CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID,
	};
	unsigned int n_accessed_by = worker->n_devices + 1;
	struct said said = { 0 };
	size_t sizes[N_ATTRIBUTES];
	void *places[N_ATTRIBUTES];
	int r;

	for (unsigned int i = 0; i < N_ATTRIBUTES; i++) {
		places[i] = &said.number[i];
		sizes[i] = sizeof(said.number[i]);
	}
	places[ACCESSED_BY] = said.accessed_by;
	sizes[ACCESSED_BY] = n_accessed_by * sizeof(said.accessed_by[0]);
	r = CUDA(worker->driver, failure, cuMemRangeGetAttributes, places, sizes,
		 attributes, old ? N_OLD_ATTRIBUTES : N_ATTRIBUTES, from, to - from);
	if (r == 0)
		*ret_value = said_value(&said, n_accessed_by, old);
	return r;
}

/* Whether all pages of [from, to) have the value. Returns: 1; 0; -errno. */
static int range_is_alike(struct worker *worker, uint64_t from, uint64_t to,
			  uint64_t value, struct cuda_failure *failure)
{
	uint64_t page = (uint64_t)getpagesize(), n_pages = (to - from) / page;
	uint64_t n_probes = MIN(n_pages, (uint64_t)N_PROBES), said;
	int r;

	r = range_ask(worker, from, to, &said, failure);
	for (uint64_t i = 0; r == 0 && said == value && i < n_probes; i++) {
		/* Always includes the first and the last page. */
		uint64_t at = n_probes > 1 ? i * (n_pages - 1) / (n_probes - 1) : 0;

		r = range_ask(worker, from + at * page, from + (at + 1) * page, &said,
			      failure);
	}
	return r < 0 ? r : said == value;
}

int managed_range(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	const struct wire_request *request = &job->request;
	uint64_t page = (uint64_t)getpagesize();
	uint64_t begin = request->address & ~(page - 1);
	uint64_t end = request->address + request->length;
	uint64_t alike = begin + page, differs = align_up(end, page), to = differs;
	int r;

	r = range_ask(worker, begin, alike, &job->value[0], failure);
	/* First the whole range, then halves. */
	while (r >= 0 && alike < differs) {
		r = range_is_alike(worker, alike, to, job->value[0], failure);
		if (r > 0)
			alike = to;
		else
			differs = to - page;
		to = alike + align_up((differs - alike) / 2, page);
	}
	if (r < 0)
		return r;
	job->value[1] = MIN(alike, end) - request->address;
	return 0;
}

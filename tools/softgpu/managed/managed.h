/* SPDX-License-Identifier: MIT */
/* Managed memory: where processors may use memory, and how pages move on an access. */
#pragma once

#include "policy.h"
#include "residency.h"
#include "softgpu/memory/space.h"

struct stream;

struct managed {
	struct residency residency;
	struct policies policies;
	unsigned int attached; /* CUmemAttach_flags */
	unsigned int attached_at_first;
	struct stream *stream; /* of CU_MEM_ATTACH_SINGLE, with a reference, or NULL */
};

/*
 * A kernel on a stream reads or writes [address, address + length), which lies in one
 * allocation: the pages move, or are copied or mapped, as by a fault of the GPU. Other
 * memory is left alone. Without the library's lock.
 *
 * The answer for a page of 2 MiB holds until space_epoch() changes.
 *
 * Returns: CUDA_SUCCESS, or CUDA_ERROR_ILLEGAL_ADDRESS where the device has no concurrent
 * managed access and the memory is attached to the host or to another stream.
 */
CUresult managed_touch(const struct stream *stream, uint64_t address, uint64_t length,
		       bool write);

/*
 * The same for a copy by the device's engine: pages of the host are pulled over as for a
 * kernel, those of a device stay where they are, and copies of what is written are
 * dropped.
 */
void managed_copied(const struct stream *stream, uint64_t address, uint64_t length,
		    bool write);

/* The range of a whole stretch of managed memory, or NULL. Under the library's lock. */
struct range *managed_find(uint64_t address, uint64_t length);

/* Puts all pages of a stretch of a range to a location, with room for them or not. */
void managed_prefetch(struct range *range, uint64_t from, uint64_t to,
		      const CUmemLocation *location);

/* Leaves one copy each of the pages of a stretch of a range. */
void managed_collapse(struct range *range, uint64_t from, uint64_t to);

/* Ends a range, when nothing queued uses it. */
void managed_free(struct range *range);

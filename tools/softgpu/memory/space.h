/* SPDX-License-Identifier: MIT */
/* The address space: every range known to the driver, in order. */
#pragma once

#include "softgpu/call.h"
#include "softgpu/options.h"

struct context;

enum range_kind {
	RANGE_MEMORY,	  /* cuMemAlloc */
	RANGE_POOL,	  /* cuMemAllocAsync */
	RANGE_MODULE,	  /* a module's variables */
	RANGE_MAPPING,	  /* cuMemMap */
	RANGE_HOST,	  /* cuMemHostAlloc */
	RANGE_REGISTERED, /* cuMemHostRegister */
	RANGE_MANAGED,	  /* cuMemAllocManaged */
};

struct range {
	uint64_t start;
	uint64_t size;
	enum range_kind kind;
	int device;
	struct context *context; /* the range ends with this context; NULL for mappings */
	void *owner; /* struct heap, handle or managed by kind; NULL of host memory */
	uint64_t id; /* of this process, never used again */
	unsigned char access[OPTIONS_MAX_DEVICES]; /* CUmemAccess_flags; mappings only */
	bool freeing;	/* a queued cuMemFreeAsync will end it */
	bool read_only; /* registered so */
};

/* How a stretch of addresses lies to the known ranges. */
enum span {
	SPAN_OUTSIDE, /* touches none: the process's own memory */
	SPAN_INSIDE,  /* may be used */
	SPAN_BROKEN,  /* leaves a range, or lacks a mapping or the access */
};

/*
 * Adds a copy of a range that overlaps no other, with a new id.
 *
 * Returns: the kept range, owned by the space until space_remove(), or NULL without
 * memory.
 */
struct range *space_add(const struct range *range);
void space_remove(struct range *range);

/* The range around an address, or the first that overlaps, or NULL. */
struct range *space_find(uint64_t address);
struct range *space_overlap(uint64_t start, uint64_t size);

/* Some range that ends with the context, or NULL. */
struct range *space_of_context(const struct context *context);

/* The access that counts is CU_MEM_ACCESS_FLAGS_PROT_READ or _READWRITE. */
enum span space_span(uint64_t start, uint64_t size, unsigned int access);

/* The access of a context's device to a range, for kernels and copies. Returns:
 * CUmemAccess_flags. */
unsigned int range_device_access(const struct range *range,
				 const struct context *context);

/* A number that changes with every change of any range; to be read atomically. */
const uint64_t *space_epoch(void);
void space_changed(void);

/* The access of all devices together to a range. Returns: CUmemAccess_flags. */
unsigned int range_access(const struct range *range);

static inline bool range_is_host(const struct range *range)
{
	return range->kind == RANGE_HOST || range->kind == RANGE_REGISTERED;
}

static inline uint64_t range_end(const struct range *range)
{
	return range->start + range->size;
}

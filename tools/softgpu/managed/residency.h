/* SPDX-License-Identifier: MIT */
/* Where the pages of managed memory are, for all processes of a machine to see. */
#pragma once

#include "softgpu/memory/ledger.h"

#define RESIDENCY_PAGE OPTIONS_GRANULARITY

/* The prefix of file names; the process and the address follow. */
#define RESIDENCY_PREFIX "managed-"

/* A set of places: a bit for each device, then one for each NUMA node of the host. */
#define WHERE_DEVICE(device) (1U << (device))
#define WHERE_NODE(node)     (1U << (OPTIONS_MAX_DEVICES + (node)))
#define WHERE_DEVICES	     ((1U << OPTIONS_MAX_DEVICES) - 1)
#define WHERE_HOST	     (~WHERE_DEVICES)

struct page {
	uint32_t where; /* 0: never touched; more than one bit: copies for reading */
	uint32_t moved; /* the clock then: the oldest is evicted first */
};

struct residency {
	struct page *pages; /* shared by all processes, under the ledger's lock */
	size_t n_pages;
	char name[64];
};

/*
 * Begins to keep the pages of an allocation, none of them anywhere.
 *
 * Returns: 0, -ENOMEM when there would be more managed memory than options.managed, or
 * -errno.
 */
int residency_open(struct residency *residency, uint64_t address, size_t n_pages);
void residency_close(struct residency *residency);

/* The places of a page. An eviction to the host may come at any moment. */
uint32_t residency_where(const struct residency *residency, size_t page);

/*
 * Puts a page into some places, and out of all others. At most one device is new to the
 * page.
 *
 * Returns: whether the page is there now. Where a device has no room, filled by memory
 * that can't be evicted, the page is where it was.
 */
bool residency_move(struct residency *residency, size_t page, uint32_t where);

/*
 * For the ledger, under the lock of the account: whether a file is a residency; what the
 * file adds to the sums; and making room on a device for some bytes, by moving pages of
 * some accounts to the host, those that moved longest ago first, of all processes.
 */
bool residency_is(const char *name);
void residency_count(int dir_fd, const char *name, struct sums *sums);
void residency_evict(int device, uint64_t bytes, struct account *accounts);

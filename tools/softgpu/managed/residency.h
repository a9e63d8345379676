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
 * For the ledger, under the lock of the account: whether a file is a residency; and what
 * the file adds to the sums.
 */
bool residency_is(const char *name);
void residency_count(int dir_fd, const char *name, struct sums *sums);

/*
 * Making room on a device, by moving pages to the host, those that moved longest ago
 * first: residency_look() reads the pages of an account, of as many accounts as wanted,
 * residency_choose() says until when the pages moved that have to go, and
 * residency_evict() moves these, account by account.
 */
struct residency_ages {
	int32_t *moved; /* milliseconds since now: negative in the past */
	size_t n;
	size_t capacity;
	uint32_t now;
};

/* The clock goes round: its times have an order only as seen from one moment. */
struct residency_until {
	uint32_t now;
	int32_t moved;
};

#define RESIDENCY_AGES_INIT     \
	(struct residency_ages) \
	{                       \
		0               \
	}

void residency_look(struct residency_ages *ages, int dir_fd, int device);

/* Returns: false where nothing has to go or may go. */
bool residency_choose(struct residency_ages *ages, uint64_t bytes,
		      struct residency_until *ret);

/* Under the lock of the account. Returns: the bytes moved, at most so many pages' more.
 */
uint64_t residency_evict(int device, uint64_t bytes, struct residency_until until,
			 struct account *account);

static inline void residency_ages_free(struct residency_ages *ages)
{
	free(ages->moved);
}

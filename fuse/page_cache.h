/* SPDX-License-Identifier: MIT */
/*
 * The kernel's page cache of data. read(2) goes past the page cache; sendfile(2),
 * splice(2) and private mappings fill it, and as long as a descriptor is open the kernel
 * reads the same pages again. So the pages of an allocation are dropped before the answer
 * to a request that has changed the allocation.
 *
 * An allocation is listed from its first such read until its pages are dropped. Its
 * counter of changes (object_stat) is noted before the read begins: a read that begins
 * after a change was accepted is ordered behind it, so pages are old only when the
 * counter has gone on since.
 *
 * Dropping pages waits for reads into them, which may wait for a GPU, and no signal ends
 * the wait. So a thread made for the purpose drops them, never one that takes requests or
 * hears answers, and it first waits a moment for reads that began before. When they go
 * on, the last of them has the pages dropped, and the answer waits no longer. An answer
 * waits only for allocations that its user may change.
 */
#pragma once

#include "api/broker.h"

#include <pthread.h>

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

struct cached;
struct drop;
struct request;

struct page_cache {
	struct broker *broker;
	struct fuse_session *session;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct cached *by_token; /* lock */
	struct drop *drops;	 /* lock: under way, a thread each, the newest first */
	bool ending;		 /* lock */
};

void page_cache_init(struct page_cache *cache, struct broker *broker,
		     struct fuse_session *session);

/* From now on nothing is dropped. Waits a bounded time for drops under way. */
void page_cache_end(struct page_cache *cache);
void page_cache_deinit(struct page_cache *cache);

/* Around a read into the page cache, the first before the broker is asked.
 * Returns: the argument for the end; NULL when the read could not be noted. */
struct cached *page_cache_begin_read(struct page_cache *cache, struct token token,
				     fuse_ino_t ino);
void page_cache_end_read(struct page_cache *cache, struct cached *cached);

/*
 * Drops the pages that are old, of allocations that the user may change, then calls done
 * from another thread.
 * Returns: true; false when no pages are old, and done is not called.
 */
bool page_cache_drop(struct page_cache *cache, uid_t uid, void (*done)(void *userdata),
		     void *userdata);

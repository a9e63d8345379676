/* SPDX-License-Identifier: MIT */
/*
 * What the kernel keeps of data in its page cache. read(2) goes past the page cache;
 * sendfile(2), splice(2) and private mappings fill it, and as long as a descriptor is
 * open the kernel takes from there what has been read once. So the pages of an allocation
 * are dropped before the answer to whatever has changed it.
 *
 * An allocation is listed from its first such read until its pages are dropped. Its
 * counter of changes (object_stat) is noted before the read begins: a read that begins
 * after a change was accepted is ordered behind it, so pages are old only when the
 * counter has gone on since.
 *
 * Dropping pages waits for reads into them, which may wait for a GPU, and no signal ends
 * that. So a thread made for the purpose drops them, never one that takes requests or
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

/* From now on nothing is dropped. Gives droppings under way a bounded time. */
void page_cache_end(struct page_cache *cache);
void page_cache_deinit(struct page_cache *cache);

/* Around a read into the page cache, the first before the broker is asked.
 * Returns: what to end it with; NULL when it could not be noted. */
struct cached *page_cache_begin_read(struct page_cache *cache, struct token token,
				     fuse_ino_t ino);
void page_cache_end_read(struct page_cache *cache, struct cached *cached);

/*
 * Drops the pages that are old, of allocations that the user may change, then calls done
 * from another thread.
 * Returns: will it? Not when there are none.
 */
bool page_cache_drop(struct page_cache *cache, uid_t uid, void (*done)(void *userdata),
		     void *userdata);

/* SPDX-License-Identifier: MIT */
#include "page_cache.h"

#include "base/def.h"

#include <time.h>
#include <uthash.h>

#define ENDING_S 1

struct cached {
	struct token token;
	fuse_ino_t ino;
	uint64_t n_changes; /* when the oldest page was read */
	unsigned int n_reading;
	UT_hash_handle hh;
	struct cached *next; /* of those that are being dropped */
};

/* One thread's work. */
struct drop {
	struct page_cache *cache;
	struct cached *first;
	void (*done)(void *userdata);
	void *userdata;
};

void page_cache_init(struct page_cache *cache, struct broker *broker,
		     struct fuse_session *session)
{
	*cache = (struct page_cache){ .broker = broker,
				      .session = session,
				      .lock = PTHREAD_MUTEX_INITIALIZER };
	pthread_cond_init(&cache->changed, NULL);
}

void page_cache_end(struct page_cache *cache)
{
	struct timespec until;
	int error = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += ENDING_S;
	pthread_mutex_lock(&cache->lock);
	cache->ending = true;
	while (cache->n_threads > 0 && !error)
		error = pthread_cond_timedwait(&cache->changed, &cache->lock, &until);
	pthread_mutex_unlock(&cache->lock);
}

void page_cache_deinit(struct page_cache *cache)
{
	struct cached *cached, *next;

	HASH_ITER (hh, cache->by_token, cached, next) {
		HASH_DEL(cache->by_token, cached);
		free(cached);
	}
	pthread_mutex_destroy(&cache->lock);
}

/* ---- dropping ---- */

static void drop_free(struct drop *drop)
{
	while (drop->first) {
		struct cached *cached = drop->first;

		drop->first = cached->next;
		free(cached);
	}
	free(drop);
}

static void *drop_run(void *data)
{
	struct drop *drop = data;
	struct page_cache *cache = drop->cache;

	for (struct cached *cached = drop->first; cached; cached = cached->next)
		fuse_lowlevel_notify_inval_inode(cache->session, cached->ino, 0, 0);
	if (drop->done)
		drop->done(drop->userdata);
	drop_free(drop);
	pthread_mutex_lock(&cache->lock);
	cache->n_threads--;
	pthread_cond_broadcast(&cache->changed);
	pthread_mutex_unlock(&cache->lock);
	return NULL;
}

/* With the lock held. Returns: was it started? If not, done is not called. */
static bool drop_start(struct drop *drop)
{
	struct page_cache *cache = drop->cache;
	pthread_attr_t detached;
	pthread_t thread;
	int error;

	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	error = pthread_create(&thread, &detached, drop_run, drop);
	pthread_attr_destroy(&detached);
	if (error)
		return false;
	cache->n_threads++;
	return true;
}

static void drop_take(struct drop *drop, struct cached *cached)
{
	HASH_DEL(drop->cache->by_token, cached);
	cached->next = drop->first;
	drop->first = cached;
}

/* Gives back what a drop that could not be started has taken. */
static void drop_give_back(struct drop *drop)
{
	while (drop->first) {
		struct cached *cached = drop->first;

		drop->first = cached->next;
		HASH_ADD(hh, drop->cache->by_token, token, sizeof(cached->token), cached);
	}
	free(drop);
}

static bool stat_of(struct page_cache *cache, const struct cached *cached,
		    struct object_stat *stat)
{
	return !broker_stat(cache->broker, OBJECT_ALLOCATION, cached->token, stat);
}

/* An allocation that has been freed has changed too: its entry goes. */
static bool has_changed(struct page_cache *cache, const struct cached *cached)
{
	struct object_stat stat;

	return !stat_of(cache, cached, &stat) || stat.n_changes != cached->n_changes;
}

/* Whoever has mapped host memory changes it without a word. */
static bool may_have_changed(struct page_cache *cache, const struct cached *cached)
{
	struct object_stat stat;

	return has_changed(cache, cached) || (stat_of(cache, cached, &stat) && stat.host);
}

static bool may_change(struct page_cache *cache, const struct cached *cached, uid_t uid)
{
	struct object_stat stat;

	return uid == 0 || !stat_of(cache, cached, &stat) || stat.uid == uid ||
	       stat.mode & 022;
}

bool page_cache_drop(struct page_cache *cache, uid_t uid, void (*done)(void *userdata),
		     void *userdata)
{
	struct cached *cached, *next;
	struct drop *drop = NULL;
	bool started = false;

	pthread_mutex_lock(&cache->lock);
	if (cache->by_token && !cache->ending)
		drop = calloc(1, sizeof(*drop));
	if (drop) {
		*drop = (struct drop){ .cache = cache,
				       .done = done,
				       .userdata = userdata };
		HASH_ITER (hh, cache->by_token, cached, next)
			if (cached->n_reading == 0 && may_change(cache, cached, uid) &&
			    may_have_changed(cache, cached))
				drop_take(drop, cached);
		started = drop->first && drop_start(drop);
		if (!started)
			drop_give_back(drop);
	}
	pthread_mutex_unlock(&cache->lock);
	return started;
}

/* ---- reads ---- */

bool page_cache_begin_read(struct page_cache *cache, struct token token, fuse_ino_t ino)
{
	struct object_stat stat;
	struct cached *cached;

	/* Before the read takes its place in the order. */
	if (broker_stat(cache->broker, OBJECT_ALLOCATION, token, &stat))
		return false;
	pthread_mutex_lock(&cache->lock);
	HASH_FIND(hh, cache->by_token, &token, sizeof(token), cached);
	if (!cached)
		cached = calloc(1, sizeof(*cached));
	if (cached && !cached->ino) {
		cached->token = token;
		cached->ino = ino;
		cached->n_changes = stat.n_changes;
		HASH_ADD(hh, cache->by_token, token, sizeof(token), cached);
	}
	if (cached)
		cached->n_reading++;
	pthread_mutex_unlock(&cache->lock);
	return cached;
}

void page_cache_end_read(struct page_cache *cache, struct token token)
{
	struct cached *cached;
	struct drop *drop;

	pthread_mutex_lock(&cache->lock);
	HASH_FIND(hh, cache->by_token, &token, sizeof(token), cached);
	if (--cached->n_reading == 0 && !cache->ending && has_changed(cache, cached)) {
		drop = calloc(1, sizeof(*drop));
		if (drop) {
			drop->cache = cache;
			drop_take(drop, cached);
			if (!drop_start(drop))
				drop_give_back(drop);
		}
	}
	pthread_mutex_unlock(&cache->lock);
}

/* SPDX-License-Identifier: MIT */
#include "page_cache.h"

#include "base/clock.h"
#include "base/def.h"

#include <uthash.h>
#include <utlist.h>

#define ENDING_MS  1000
#define READING_MS 100

struct cached {
	struct token token;
	fuse_ino_t ino;
	uint64_t n_changes; /* when the oldest page was read */
	unsigned int n_reading;
	bool is_late; /* off the list; the last read to end drops the pages */
	UT_hash_handle hh;
	struct cached *next; /* of the entries being dropped */
};

/* The work of a thread. */
struct drop {
	struct drop *next; /* an earlier one; page_cache.lock */
	struct page_cache *cache;
	uid_t uid; /* of the waiting user */
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
	clock_cond_init(&cache->changed);
}

void page_cache_end(struct page_cache *cache)
{
	const int64_t until = clock_ms() + ENDING_MS;
	int error = 0;

	pthread_mutex_lock(&cache->lock);
	cache->ending = true;
	while (cache->drops && !error)
		error = clock_cond_wait(&cache->changed, &cache->lock, until);
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

static bool stat_of(struct page_cache *cache, const struct cached *cached,
		    struct object_stat *stat)
{
	return !broker_stat(cache->broker, OBJECT_ALLOCATION, cached->token, stat);
}

static void drop_free(struct drop *drop)
{
	while (drop->first) {
		struct cached *cached = drop->first;

		drop->first = cached->next;
		free(cached);
	}
	free(drop);
}

/* Waits for earlier reads. Takes out the entries with reads that go on: the last read to
 * end has the pages dropped. */
static void drop_wait(struct drop *drop)
{
	struct page_cache *cache = drop->cache;
	const int64_t until = clock_ms() + READING_MS;
	struct cached **at = &drop->first;

	pthread_mutex_lock(&cache->lock);
	while (*at) {
		struct cached *cached = *at;
		int error = 0;

		while (cached->n_reading > 0 && !error)
			error = clock_cond_wait(&cache->changed, &cache->lock, until);
		cached->is_late = cached->n_reading > 0;
		if (cached->is_late)
			*at = cached->next;
		else
			at = &cached->next;
	}
	pthread_mutex_unlock(&cache->lock);
}

static bool may_change(struct page_cache *cache, const struct cached *cached, uid_t uid)
{
	struct object_stat stat;

	return uid == 0 || !stat_of(cache, cached, &stat) || stat.uid == uid ||
	       stat.mode & 022;
}

/* Does any of these drop pages of allocations that the user may change? */
static bool is_dropping(const struct drop *drops, uid_t uid)
{
	for (; drops; drops = drops->next)
		for (const struct cached *at = drops->first; at; at = at->next)
			if (may_change(drops->cache, at, uid))
				return true;
	return false;
}

/* An earlier drop may have taken entries of this user. */
static void drop_wait_for_others(struct drop *drop)
{
	struct page_cache *cache = drop->cache;
	const int64_t until = clock_ms() + READING_MS;
	int error = 0;

	pthread_mutex_lock(&cache->lock);
	while (drop->done && !error && is_dropping(drop->next, drop->uid))
		error = clock_cond_wait(&cache->changed, &cache->lock, until);
	pthread_mutex_unlock(&cache->lock);
}

static void *drop_run(void *data)
{
	struct drop *drop = data;
	struct page_cache *cache = drop->cache;

	drop_wait(drop);
	for (struct cached *cached = drop->first; cached; cached = cached->next)
		fuse_lowlevel_notify_inval_inode(cache->session, cached->ino, 0, 0);
	drop_wait_for_others(drop);
	if (drop->done)
		drop->done(drop->userdata);
	pthread_mutex_lock(&cache->lock);
	LL_DELETE(cache->drops, drop);
	pthread_cond_broadcast(&cache->changed);
	pthread_mutex_unlock(&cache->lock);
	drop_free(drop);
	return NULL;
}

/* With the lock held. Returns: was a thread started? If not, done is not called. */
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
	if (!error)
		LL_PREPEND(cache->drops, drop);
	return !error;
}

/* Reads that begin from now on get an entry of their own. */
static void drop_take(struct drop *drop, struct cached *cached)
{
	if (!cached->is_late)
		HASH_DEL(drop->cache->by_token, cached);
	cached->next = drop->first;
	drop->first = cached;
}

/* A drop that could not be started gives the entries back. */
static void drop_give_back(struct drop *drop)
{
	while (drop->first) {
		struct cached *cached = drop->first;

		drop->first = cached->next;
		if (cached->is_late)
			free(cached);
		else
			HASH_ADD(hh, drop->cache->by_token, token, sizeof(cached->token),
				 cached);
	}
	free(drop);
}

/* A freed allocation has changed, too: the entry goes. */
static bool has_changed(struct page_cache *cache, const struct cached *cached)
{
	struct object_stat stat;

	return !stat_of(cache, cached, &stat) || stat.n_changes != cached->n_changes;
}

/* A process that has mapped host memory changes the bytes unnoticed. */
static bool may_have_changed(struct page_cache *cache, const struct cached *cached)
{
	struct object_stat stat;

	return has_changed(cache, cached) || (stat_of(cache, cached, &stat) && stat.host);
}

bool page_cache_drop(struct page_cache *cache, uid_t uid, void (*done)(void *userdata),
		     void *userdata)
{
	struct cached *cached, *next;
	struct drop *drop = NULL;
	bool started = false;

	pthread_mutex_lock(&cache->lock);
	if ((cache->by_token || cache->drops) && !cache->ending)
		drop = calloc(1, sizeof(*drop));
	if (drop) {
		*drop = (struct drop){
			.cache = cache, .uid = uid, .done = done, .userdata = userdata
		};
		HASH_ITER (hh, cache->by_token, cached, next)
			if (may_change(cache, cached, uid) &&
			    may_have_changed(cache, cached))
				drop_take(drop, cached);
		started = (drop->first || is_dropping(cache->drops, uid)) &&
			  drop_start(drop);
		if (!started)
			drop_give_back(drop);
	}
	pthread_mutex_unlock(&cache->lock);
	return started;
}

/* ---- reads ---- */

struct cached *page_cache_begin_read(struct page_cache *cache, struct token token,
				     fuse_ino_t ino)
{
	struct object_stat stat;
	struct cached *cached;

	/* Before the read takes its place in the order. */
	if (broker_stat(cache->broker, OBJECT_ALLOCATION, token, &stat))
		return NULL;
	pthread_mutex_lock(&cache->lock);
	HASH_FIND(hh, cache->by_token, &token, sizeof(token), cached);
	if (!cached) {
		cached = calloc(1, sizeof(*cached));
		if (cached) {
			cached->token = token;
			cached->ino = ino;
			cached->n_changes = stat.n_changes;
			HASH_ADD(hh, cache->by_token, token, sizeof(token), cached);
		}
	}
	if (cached)
		cached->n_reading++;
	pthread_mutex_unlock(&cache->lock);
	return cached;
}

/* Is this the last read of an entry that no drop waits for? Lock held. */
static bool ends_late(struct page_cache *cache, const struct cached *cached)
{
	const struct cached *listed;

	if (cached->n_reading > 0)
		return false;
	if (cached->is_late)
		return true;
	HASH_FIND(hh, cache->by_token, &cached->token, sizeof(cached->token), listed);
	return listed == cached && has_changed(cache, cached);
}

void page_cache_end_read(struct page_cache *cache, struct cached *cached)
{
	struct drop *drop = NULL;

	pthread_mutex_lock(&cache->lock);
	cached->n_reading--;
	pthread_cond_broadcast(&cache->changed);
	if (!cache->ending && ends_late(cache, cached))
		drop = calloc(1, sizeof(*drop));
	if (drop) {
		drop->cache = cache;
		drop_take(drop, cached);
		if (!drop_start(drop))
			drop_give_back(drop);
	}
	pthread_mutex_unlock(&cache->lock);
}

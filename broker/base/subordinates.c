/* SPDX-License-Identifier: MIT */
#include "base/subordinates.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/def.h"

/* Numbers of ranges are beyond all uids. */
#define OF_RANGE (UINT64_C(1) << 32)

struct range {
	uint64_t first, n;
};

struct subordinates {
	char *path;
	struct stat read; /* the file that was read; zeros: none */
	pthread_rwlock_t lock;
	struct range *ranges; /* by their first uids. lock */
	size_t n_ranges;      /* lock */
};

struct list {
	struct range *ranges;
	size_t n, capacity;
};

/* Returns: false: no memory. */
static bool list_add(struct list *list, struct range range)
{
	if (list->n == list->capacity) {
		size_t capacity = 2 * list->capacity + 16;
		struct range *more = reallocarray(list->ranges, capacity, sizeof(*more));

		if (!more)
			return false;
		list->ranges = more;
		list->capacity = capacity;
	}
	list->ranges[list->n++] = range;
	return true;
}

/* A line is NAME:FIRST:COUNT, or with a uid for the name. Others are ignored. */
static bool line_parse(const char *line, struct range *ret_range)
{
	char name[64];
	unsigned long long first, n;

	if (sscanf(line, "%63[^:]:%llu:%llu", name, &first, &n) != 3 ||
	    !strcmp(name, "root") || !strcmp(name, "0") || first > UINT32_MAX || !n)
		return false;
	*ret_range = (struct range){ first, MIN(n, (1ull << 32) - first) };
	return true;
}

static int range_compare(const void *a, const void *b)
{
	const struct range *one = a, *other = b;

	return (one->first > other->first) - (one->first < other->first);
}

/* Returns: false: no memory. */
static bool read_all(FILE *file, struct list *list)
{
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	struct range range;

	while (getline(&line, &size, file) >= 0) {
		if (line_parse(line, &range) && !list_add(list, range))
			return false;
	}
	if (list->n)
		qsort(list->ranges, list->n, sizeof(*list->ranges), range_compare);
	return true;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev &&
	       a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

void subordinates_look(struct subordinates *subordinates)
{
	struct list list = { 0 };
	struct stat now = { 0 };
	bool whole = true;
	FILE *file;

	if (!subordinates)
		return;
	if (stat(subordinates->path, &now) < 0)
		now = (struct stat){ 0 };
	if (is_same(&now, &subordinates->read))
		return;
	file = now.st_ino ? fopen(subordinates->path, "re") : NULL;
	if (file) {
		whole = read_all(file, &list);
		fclose(file);
	}
	if (!whole) {
		free(list.ranges);
		return;
	}
	subordinates->read = now;
	pthread_rwlock_wrlock(&subordinates->lock);
	free(subordinates->ranges);
	subordinates->ranges = list.ranges;
	subordinates->n_ranges = list.n;
	pthread_rwlock_unlock(&subordinates->lock);
}

struct subordinates *subordinates_new(const char *path)
{
	struct subordinates *subordinates = calloc(1, sizeof(*subordinates));

	if (subordinates)
		subordinates->path = strdup(path);
	if (!subordinates || !subordinates->path) {
		free(subordinates);
		return NULL;
	}
	pthread_rwlock_init(&subordinates->lock, NULL);
	subordinates_look(subordinates);
	return subordinates;
}

struct subordinates *subordinates_free(struct subordinates *subordinates)
{
	if (!subordinates)
		return NULL;
	pthread_rwlock_destroy(&subordinates->lock);
	free(subordinates->ranges);
	free(subordinates->path);
	free(subordinates);
	return NULL;
}

/* The last range that begins at or before the uid; NULL: none does. */
static const struct range *range_before(const struct subordinates *subordinates,
					uid_t uid)
{
	size_t low = 0, high = subordinates->n_ranges;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (subordinates->ranges[middle].first <= uid)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &subordinates->ranges[low - 1] : NULL;
}

uint64_t subordinates_user(struct subordinates *subordinates, uid_t uid)
{
	const struct range *range;
	uint64_t user = uid;

	if (!subordinates)
		return uid;
	pthread_rwlock_rdlock(&subordinates->lock);
	range = range_before(subordinates, uid);
	if (range && uid - range->first < range->n)
		user = OF_RANGE | range->first;
	pthread_rwlock_unlock(&subordinates->lock);
	return user;
}

int64_t subordinates_first(uint64_t user)
{
	return user & OF_RANGE ? (int64_t)(user ^ OF_RANGE) : -1;
}

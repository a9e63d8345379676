/* SPDX-License-Identifier: MIT */
/* The orders that `gpumem ls` and `gpumem top` show allocations in. */
#include "snapshot.h"

#include <string.h>

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

static int by_name(const void *a, const void *b)
{
	const struct allocation *first = a, *second = b;

	return strverscmp(first->name, second->name);
}

static int by_size(const void *a, const void *b)
{
	const struct allocation *first = a, *second = b;

	return COMPARE(second->size, first->size) ?: by_name(a, b);
}

static int by_owner(const void *a, const void *b)
{
	const struct allocation *first = a, *second = b;

	return strcmp(first->owner, second->owner) ?: by_size(a, b);
}

static int by_gpu(const void *a, const void *b)
{
	const struct allocation *first = a, *second = b;

	return COMPARE(first->device, second->device) ?: by_size(a, b);
}

static int by_kind(const void *a, const void *b)
{
	const struct allocation *first = a, *second = b;

	return strcmp(first->kind ?: "", second->kind ?: "") ?: by_size(a, b);
}

static int by_written(const void *a, const void *b)
{
	const struct allocation *first = a, *second = b;

	return COMPARE(second->written, first->written) ?: by_name(a, b);
}

static const struct {
	const char *name;
	int (*compare)(const void *, const void *);
} keys[] = {
	{ "size", by_size }, { "name", by_name }, { "owner", by_owner },
	{ "gpu", by_gpu },   { "kind", by_kind }, { "written", by_written },
};

bool snapshot_has_key(const char *key)
{
	return snapshot_sort(&(struct snapshot){ 0 }, key);
}

bool snapshot_sort(struct snapshot *snapshot, const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcmp(keys[i].name, key) != 0)
			continue;
		if (snapshot->n_allocations)
			qsort(snapshot->allocations, snapshot->n_allocations,
			      sizeof(struct allocation), keys[i].compare);
		return true;
	}
	return false;
}

const char *snapshot_next_key(const char *key)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(keys) && strcmp(keys[i].name, key) != 0)
		i++;
	return keys[(i + 1) % ARRAY_SIZE(keys)].name;
}

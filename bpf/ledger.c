/* SPDX-License-Identifier: MIT */
#include "ledger.h"

#include "kernel/bucket.h"
#include "trace.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>

/* Programs of the kernel change the buckets meanwhile. */
static __u64 tag_read(const struct bucket *bucket, size_t way)
{
	return __atomic_load_n(&bucket->tags[way], __ATOMIC_ACQUIRE);
}

/* Asks for room for all entries at once; the kernel gives only the used part. */
static int buckets_read(const struct tracer *tracer, struct held **ret_held,
			size_t *ret_n)
{
	struct held *held = malloc(BUCKETS * WAYS * sizeof *held);
	size_t n = 0;

	if (!held)
		return -ENOMEM;
	for (size_t i = 0; i < BUCKETS * WAYS; i++) {
		const struct bucket *bucket = &tracer->probes.buckets[i / WAYS];
		const struct slot *slot = &bucket->slots[i % WAYS];
		__u64 tag = tag_read(bucket, i % WAYS);

		if (tag < TAG_ENTRY)
			continue;
		held[n] = (struct held){ slot->key, slot->entry };
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		n += tag_read(bucket, i % WAYS) == tag;
	}
	*ret_held = held;
	*ret_n = n;
	return 0;
}

void ledger_remove(const struct tracer *tracer, const struct ledger_key *key)
{
	__u64 tag = ledger_tag(key);
	struct bucket *bucket = &tracer->probes.buckets[ledger_bucket(tag)];

	for (size_t way = 0; way < WAYS; way++) {
		__u64 seen = tag;

		if (tag_read(bucket, way) == tag &&
		    ledger_key_is(&bucket->slots[way].key, key) &&
		    __atomic_compare_exchange_n(&bucket->tags[way], &seen, TAG_FREE,
						false, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED))
			return;
	}
	bpf_map__delete_elem(tracer->probes.bpf->maps.ledger, key, sizeof *key, 0);
}

#define BATCH 4096

static int map_read(const struct tracer *tracer, struct held **held, size_t *n)
{
	int fd = bpf_map__fd(tracer->probes.bpf->maps.ledger);
	_cleanup_free_ struct ledger_key *keys = malloc(BATCH * sizeof *keys);
	_cleanup_free_ struct entry *entries = malloc(BATCH * sizeof *entries);
	__u32 in = 0, out = 0;
	bool first = true;
	int error = 0;

	while (keys && entries && !error) {
		__u32 n_read = BATCH;

		error = bpf_map_lookup_batch(fd, first ? NULL : &in, &out, keys, entries,
					     &n_read, NULL);
		if (error && error != -ENOENT)
			return error;
		struct held *more = realloc(*held, (*n + n_read + 1) * sizeof *more);
		if (!more)
			return -ENOMEM;
		*held = more;
		for (__u32 i = 0; i < n_read; i++)
			more[(*n)++] = (struct held){ keys[i], entries[i] };
		in = out;
		first = false;
	}
	return keys && entries ? 0 : -ENOMEM;
}

int ledger_read(const struct tracer *tracer, struct held **ret_held, size_t *ret_n)
{
	_cleanup_free_ struct held *held = NULL;
	size_t n = 0;
	int error = buckets_read(tracer, &held, &n);

	if (!error)
		error = map_read(tracer, &held, &n);
	if (error)
		return error;
	*ret_held = take_ptr(held);
	*ret_n = n;
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * Putting entries into buckets and taking them out.
 */
#pragma once

#include "bucket.h"
#include "maps.bpf.h"

static __always_inline struct bucket *bucket_of(__u64 tag)
{
	__u32 index = ledger_bucket(tag);

	return bpf_map_lookup_elem(&buckets, &index);
}

/* The slot with this tag; WAYS: none. The number goes through memory, so that the
 * verifier follows a single path from there instead of a path for each slot. */
static __always_inline __u32 bucket_way(const struct bucket *bucket, __u64 tag,
					struct thread *thread)
{
	__u32 way;

	for (way = 0; way < WAYS; way++)
		if (*(const volatile __u64 *)&bucket->tags[way] == tag)
			break;
	*(volatile __u32 *)&thread->way = way;
	return *(volatile __u32 *)&thread->way;
}

static __always_inline bool bucket_own(struct bucket *bucket, __u32 way, __u64 tag)
{
	return __sync_val_compare_and_swap(&bucket->tags[way & (WAYS - 1)], tag,
					   TAG_BUSY) == tag;
}

static __always_inline void bucket_disown(struct bucket *bucket, __u32 way, __u64 tag)
{
	__asm__ volatile("" ::: "memory"); /* writes to the slot are visible */
	*(volatile __u64 *)&bucket->tags[way & (WAYS - 1)] = tag;
}

/*
 * Puts an entry in. An entry with the same key is replaced, and returned in *ret_old.
 *
 * Returns: whether there was room.
 */
static __always_inline bool bucket_put(const struct ledger_key *key,
				       const struct entry *entry, struct thread *thread,
				       struct entry *ret_old)
{
	__u64 tag = ledger_tag(key);
	struct bucket *bucket = bucket_of(tag);
	if (!bucket)
		return false;
	__u32 way = bucket_way(bucket, tag, thread);
	if (way < WAYS && bucket_own(bucket, way, tag)) {
		*ret_old = bucket->slots[way & (WAYS - 1)].entry;
	} else {
		way = bucket_way(bucket, TAG_FREE, thread);
		if (way >= WAYS || !bucket_own(bucket, way, TAG_FREE))
			return false;
	}
	struct slot *slot = &bucket->slots[way & (WAYS - 1)];

	slot->key = *key;
	slot->entry = *entry;
	bucket_disown(bucket, way, tag);
	return true;
}

/* Returns: whether the entry was there, and no other thread has taken it. */
static __always_inline bool bucket_take(const struct ledger_key *key,
					struct thread *thread, struct entry *ret_entry)
{
	__u64 tag = ledger_tag(key);
	struct bucket *bucket = bucket_of(tag);
	if (!bucket)
		return false;
	__u32 way = bucket_way(bucket, tag, thread);
	struct slot *slot = &bucket->slots[way & (WAYS - 1)];

	if (way >= WAYS || !ledger_key_is(&slot->key, key) ||
	    !bucket_own(bucket, way, tag))
		return false;
	*ret_entry = slot->entry;
	bucket_disown(bucket, way, TAG_FREE);
	return true;
}

/* Whether a key is there. */
static __always_inline bool bucket_has(const struct ledger_key *key,
				       struct thread *thread)
{
	__u64 tag = ledger_tag(key);
	struct bucket *bucket = bucket_of(tag);

	return bucket && bucket_way(bucket, tag, thread) < WAYS;
}

/* SPDX-License-Identifier: MIT */
/*
 * The quick part of the ledger: an array of buckets. Finding an entry takes a few
 * instructions here, and several calls of kernel functions in a hash map. Allocations are
 * in a bucket while the bucket has room, else in the map `ledger`. Entries that refer to
 * other entries (handles and mappings) are always in the map.
 *
 * A slot's tag is TAG_FREE, TAG_BUSY (an entry is being written or taken) or made from
 * the key of the slot's entry. A thread that changes the tag from another value to
 * TAG_BUSY, by compare and exchange, owns the slot until the thread writes the next tag.
 */
#pragma once

#include "record.h"

#define WAYS	8
#define BUCKETS 8192 /* a power of two */

enum tag {
	TAG_FREE,
	TAG_BUSY,
	TAG_ENTRY, /* this bit, and others of the key's hash */
};

struct slot {
	struct ledger_key key;
	struct entry entry;
};

struct bucket {
	__u64 tags[WAYS];
	struct slot slots[WAYS];
};

static inline __u64 ledger_tag(const struct ledger_key *key)
{
	__u64 hash = (key->address ^ key->process << 13) * 0x9e3779b97f4a7c15;

	hash ^= hash >> 32;
	hash += key->process + key->space;
	hash *= 0xd6e8feb86659fd93;
	return hash | TAG_ENTRY;
}

static inline __u32 ledger_bucket(__u64 tag)
{
	return (__u32)(tag >> 40) & (BUCKETS - 1);
}

static inline int ledger_key_is(const struct ledger_key *a, const struct ledger_key *b)
{
	return a->process == b->process && a->address == b->address &&
	       a->space == b->space;
}

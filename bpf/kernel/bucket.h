/* SPDX-License-Identifier: MIT */
/*
 * The quick part of the ledger: an array of buckets, in which an entry is found with a
 * few instructions, while a hash map takes several calls of the kernel's for it.
 * Allocations are here as long as their bucket has room, and in the map `ledger` else.
 * What refers to other entries, as handles and mappings do, is in the map always.
 *
 * A tag says what its slot holds: nothing, something that is being written or taken, or
 * the entry whose key makes this tag. Who changes the tag from one of the others to
 * TAG_BUSY, by a compare and exchange, owns the slot until he writes the next tag.
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

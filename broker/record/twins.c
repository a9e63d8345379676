/* SPDX-License-Identifier: MIT */
#include "record/twins.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/def.h"
#include "base/hash.h"
#include "base/huge_pages.h"
#include "record/layout.h"

/* The number of an open file has its slot in the low half. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low half comes first");

enum tree {
	TREE_NONE, /* the value is not that of an entry */
	TREE_ALLOCATIONS,
	TREE_MODULES,
	TREE_OF_RECORD, /* a folder says which */
};

/* A number that must differ, alone or together with a name. */
struct value {
	enum record_type type;
	size_t number; /* offset of a uint32_t */
	size_t name;   /* offset of a string; 0: none */
	size_t name_size;
	enum tree tree;
	const char *sentence;
};

#define FIELD(type, field) offsetof(struct type##_record, field)
#define NAME(type)                                              \
	.name = FIELD(type, name),                              \
	.name_size = sizeof(((struct type##_record *)0)->name), \
	.sentence = "has the same name as another"

/* Less than RECORD_SLOTS: a bit each. */
static const struct {
	enum record_type type;
	size_t number;
} slots[] = {
	{ RECORD_ALLOCATION, FIELD(allocation, slot) },
	{ RECORD_FOLDER, FIELD(folder, slot) },
	{ RECORD_OWNER, FIELD(owner, slot) },
	{ RECORD_MODULE, FIELD(module, slot) },
	{ RECORD_FUNCTION, FIELD(function, slot) },
	{ RECORD_STREAM, FIELD(stream, slot) },
	{ RECORD_LEASE, FIELD(lease, file) },
};

/* All others, in a hash table. */
static const struct value values[] = {
	{ RECORD_ALLOCATION, FIELD(allocation, folder), NAME(allocation),
	  .tree = TREE_ALLOCATIONS },
	{ RECORD_FOLDER, FIELD(folder, folder), NAME(folder), .tree = TREE_OF_RECORD },
	{ RECORD_MODULE, FIELD(module, folder), NAME(module), .tree = TREE_MODULES },
	{ RECORD_STREAM, FIELD(stream, owner), NAME(stream), .tree = TREE_NONE },
	{ RECORD_OWNER, FIELD(owner, uid), .sentence = "is there twice" },
	{ RECORD_OUTPUT, FIELD(output, owner), .sentence = "is there twice" },
};

struct key {
	const char *name; /* of the record, or "" */
	uint32_t number;
	uint32_t space; /* of the numbers: a tree, or a type */
};

/* As small as can be: the table is read at random. */
struct place {
	_Alignas(uint64_t) uint32_t hash;
	uint32_t value : 8;   /* index in values[] */
	uint32_t record : 24; /* 0: nothing is here */
};

/* Threads fill a free place in one step. */
_Static_assert(sizeof(struct place) == sizeof(uint64_t), "a place is one word");

struct seen_names {
	const struct records *records;
	struct place *places;
	uint64_t n_places; /* a power of two; half of them stay free */
};

/*
 * In huge pages: the table is read at random, and most of the time would be spent on
 * finding its small pages.
 */
static struct place *places_new(uint64_t n)
{
	uint64_t size = align_up(n * sizeof(struct place), HUGE_PAGE);
	struct place *places;

	if (n * sizeof(struct place) < HUGE_PAGE / 2)
		return calloc(n, sizeof(struct place));
	places = aligned_alloc(HUGE_PAGE, size);
	if (!places)
		return NULL;
	(void)madvise(places, size, MADV_HUGEPAGE);
	memset(places, 0, size);
	return places;
}

static uint32_t number_at(const void *record, size_t offset)
{
	return *(const uint32_t *)((const char *)record + offset);
}

/* A freed allocation has neither name nor slot. */
static bool is_freed(enum record_type type, const void *record)
{
	const struct allocation_record *allocation = record;

	return type == RECORD_ALLOCATION && allocation->flags & RECORD_FREED;
}

/* ---- slots ---- */

/* Returns: whether the slot is new. */
static bool add_slot(uint64_t *bits, uint32_t slot)
{
	uint64_t bit = (uint64_t)1 << slot % 64, before = bits[slot / 64];

	bits[slot / 64] |= bit;
	return !(before & bit);
}

static int find_same_slot(const struct records *records, enum record_type type,
			  size_t number, struct twin *ret_twin)
{
	_cleanup_free_ uint64_t *bits = NULL;
	const void *record;

	if (!records_last(records, type))
		return 0;
	bits = calloc(RECORD_SLOTS / 64, sizeof(*bits));
	if (!bits)
		return -ENOMEM;
	for (uint32_t i = 1; (record = records_next(records, type, &i)); i++) {
		uint32_t slot = number_at(record, number);

		if (is_freed(type, record) || slot >= RECORD_SLOTS ||
		    add_slot(bits, slot))
			continue;
		*ret_twin = (struct twin){ type, i, "has the same slot as another" };
		return -EINVAL;
	}
	return 0;
}

int find_same_slots(const struct records *records, struct twin *ret_twin)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(slots) && r == 0; i++)
		r = find_same_slot(records, slots[i].type, slots[i].number, ret_twin);
	return r;
}

/* ---- names ---- */

static enum tree tree_of(const struct value *value, const void *record)
{
	const struct folder_record *folder = record;

	if (value->tree != TREE_OF_RECORD)
		return value->tree;
	return folder->of_modules ? TREE_MODULES : TREE_ALLOCATIONS;
}

static struct key key_of(const struct value *value, const void *record)
{
	enum tree tree = tree_of(value, record);

	return (struct key){
		.name = value->name ? (const char *)record + value->name : "",
		.number = number_at(record, value->number),
		/* A folder has not the name of an allocation beside it. */
		.space = tree ? N_RECORD_TYPES + tree : value->type,
	};
}

static uint32_t key_hash(const struct key *key)
{
	unsigned int hash;

	HASH_VALUE(key->name, strlen(key->name), hash);
	hash += (key->number * 32 + key->space) * 2654435761u;
	return hash ^ hash >> 15;
}

static bool keys_are_one(const struct key *a, const struct key *b)
{
	return a->space == b->space && a->number == b->number &&
	       strcmp(a->name, b->name) == 0;
}

static struct key key_at(const struct seen_names *seen, const struct place *place)
{
	const struct value *value = &values[place->value];

	return key_of(value, record_at(seen->records, value->type, place->record));
}

static bool has_end(const struct value *value, const void *record)
{
	return !value->name ||
	       memchr((const char *)record + value->name, 0, value->name_size);
}

/* Fills a free place. Returns: false, with what is there: it is not free. */
static bool place_take(struct place *place, struct place *ret_there, struct place mine)
{
	memset(ret_there, 0, sizeof(*ret_there));
	return __atomic_compare_exchange(place, ret_there, &mine, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED);
}

/*
 * All that have one key look at the same places in the same order. Returns: whether the
 * key is new.
 */
static bool add_key(struct seen_names *seen, const struct value *value, uint32_t index,
		    const void *record)
{
	struct key key = key_of(value, record), other;
	uint32_t hash = key_hash(&key);
	const struct place mine = { hash, (uint32_t)(value - values), index };
	struct place there;

	for (uint64_t at = hash;
	     !place_take(&seen->places[at & (seen->n_places - 1)], &there, mine); at++) {
		if (there.hash != hash)
			continue;
		other = key_at(seen, &there);
		if (keys_are_one(&key, &other))
			return false;
	}
	return true;
}

/* Returns: NULL: nothing in records of this type must differ. */
static const struct value *value_of(enum record_type type)
{
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		if (values[i].type == type)
			return &values[i];
	}
	return NULL;
}

int seen_names_add(struct seen_names *seen, enum record_type type, uint32_t first,
		   uint32_t last, struct twin *ret_twin)
{
	const struct value *value = value_of(type);
	const void *record;

	for (uint32_t i = first;
	     value && (record = records_next(seen->records, type, &i)) && i <= last;
	     i++) {
		if (is_freed(type, record) || !has_end(value, record) ||
		    add_key(seen, value, i, record))
			continue;
		*ret_twin = (struct twin){ type, i, value->sentence };
		return -EINVAL;
	}
	return 0;
}

struct seen_names *seen_names_new(const struct records *records)
{
	struct seen_names *seen = calloc(1, sizeof(*seen));
	uint64_t n = 1;

	if (!seen)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		n += records_last(records, values[i].type);
	seen->records = records;
	seen->n_places = 1;
	while (seen->n_places < 2 * n)
		seen->n_places *= 2;
	seen->places = places_new(seen->n_places);
	return seen->places ? seen : seen_names_free(seen);
}

struct seen_names *seen_names_free(struct seen_names *seen)
{
	if (seen)
		free(seen->places);
	free(seen);
	return NULL;
}

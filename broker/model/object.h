/* SPDX-License-Identifier: MIT */
/*
 * Objects of all types alike: the folders of the mount that hold them, the tokens by
 * which everybody outside the registry knows them, their names.
 */
#pragma once

#include "base/text.h"

struct registry;
struct slots;

enum object_type {
	OBJECT_BROKER, /* the broker itself: exactly one, TOKEN_NONE */
	OBJECT_ALLOCATION,
	OBJECT_STREAM,
	OBJECT_DEVICE,
	OBJECT_OWNER,
	OBJECT_MODULE,
	OBJECT_FUNCTION, /* in the folder of its module */
	N_OBJECT_TYPES,
};

/* The name of the folder that holds such objects ("allocations"), "" for the broker. */
const char *object_folder(enum object_type type);

/*
 * A reference to an object that may end at any time: slot is its place, generation tells
 * it from what stood there before. Both fit: slot < 2^24, generation < 2^32, never zero.
 */
struct token {
	uint32_t slot;
	uint32_t generation;
};

#define TOKEN_NONE     \
	(struct token) \
	{              \
		0, 0   \
	}

#define OBJECT_NAME_MAX 64
#define LISTED_NAME_MAX 255 /* functions have longer names than users may give */

/* The objects of a type; NULL for the broker itself. Under the registry's lock, as are:
 */
struct slots *object_slots(struct registry *registry, enum object_type type);

/* The object, where it can be seen. NULL: it has gone. */
void *object_get(struct registry *registry, enum object_type type, struct token token);

/* What it is called in the folder of its type. */
void object_name(enum object_type type, const void *object,
		 char ret_name[LISTED_NAME_MAX + 1]);

/* Appends where an object stands, as `streams/s`. Returns: false when it has gone. */
bool object_path(struct registry *registry, enum object_type type, struct token token,
		 struct text *text);

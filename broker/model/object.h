/* SPDX-License-Identifier: MIT */
/*
 * All types of objects: their folders in the mount, their names, and the tokens that
 * stand for them outside the registry.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct entry;
struct registry;
struct handle_table;
struct text;

/* In this order for ever: node ids of the view have the numbers of the types. */
enum object_type {
	OBJECT_BROKER, /* the broker: a single object, TOKEN_NONE */
	OBJECT_ALLOCATION,
	OBJECT_STREAM,
	OBJECT_DEVICE,
	OBJECT_OWNER,
	OBJECT_MODULE,
	OBJECT_FUNCTION, /* in the folder of its module */
	OBJECT_FOLDER,	 /* of allocations, or of modules: model/folder.h */
	N_OBJECT_TYPES,
};

/* The folder of objects of a type ("allocations"); "" for the broker. */
const char *object_folder(enum object_type type);

/*
 * A reference to an object that may end at any time. The generation tells the object from
 * earlier objects in the same slot. slot < 2^23, generation < 2^32 and never zero.
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

/* An object outside the registry. */
struct object_ref {
	enum object_type type;
	struct token token;
};

#define OBJECT_NAME_MAX 64
#define LISTED_NAME_MAX 255 /* function names may be longer than names given by users */

/* The longest name with the folders above it, as `alice/x`. */
#define FULL_NAME_MAX 584

struct full_name {
	char text[FULL_NAME_MAX + 1];
};

/* Whether users may give the name. Returns: 0; -EINVAL; -ENAMETOOLONG. */
int name_check(const char *name);

/*
 * The slots of a type; NULL for the broker. The functions from here on need the
 * registry's lock.
 */
struct handle_table *object_slots(struct registry *registry, enum object_type type);

/* The visible object of a token; NULL: the object is gone. */
void *object_get(struct registry *registry, enum object_type type, struct token token);

/* The name of an object, with the folders above it. */
struct full_name object_name(enum object_type type, const void *object);

/* The object of an entry. */
struct object_ref entry_ref(struct entry *entry);

/*
 * Appends the path of an object, as `streams/s`. Returns: false when the object is gone.
 */
bool object_path(struct registry *registry, enum object_type type, struct token token,
		 struct text *text);

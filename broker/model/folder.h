/* SPDX-License-Identifier: MIT */
/*
 * Folders: the tree of names of allocations, and that of modules.
 *
 * Allocations, modules and folders have a `struct entry` each. A folder finds its entries
 * by name, and lists them by their places, in constant time. An entry knows its own name
 * only; its full name (`alice/x`) is put together from the folders above, so renaming a
 * folder touches nothing below it.
 *
 * The roots, `allocations` and `modules`, are folders of nobody that anyone may write.
 * Every other folder has an owner, a group and a mode as any directory. The kernel checks
 * them for paths; path_resolve() checks them for names in lines.
 *
 * mkdir makes a module of `modules/p`. A module that has never had an image becomes a
 * folder with the first name made in it: folder_from_module(). The struct module stays
 * with the folder, out of the tree, since its token goes on naming the directory.
 *
 * All under the registry's lock.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "model/name_table.h"
#include "model/object.h"
#include "model/place_table.h"

struct caller;
struct folder;
struct module;
struct owner;
struct records;
struct refusal;
struct registry;

#define FOLDER_DEPTH_MAX 8

/* The name of something in a folder. */
struct entry {
	struct folder *folder; /* NULL: out of the tree */
	union {
		struct entry *next; /* in folder->names */
		char *former; /* out of the tree: the full name as it was; NULL: `name` */
	};
	char *name;	       /* entry_deinit() frees it; NULL: not named yet */
	enum object_type type; /* of the struct that has this entry */
	uint32_t place;	       /* in folder->entries */
};

struct folder {
	struct entry entry;	/* without a folder: a root */
	enum object_type holds; /* OBJECT_ALLOCATION or OBJECT_MODULE, beside folders */
	struct name_table names;
	struct place_table entries;
	uint32_t n_below[FOLDER_DEPTH_MAX]; /* folders, by levels below this one */
	struct owner *owner;		    /* NULL: a root */
	gid_t gid;
	uint16_t mode; /* rwx bits */
	uint64_t id;
	int64_t changed_s; /* when a name in it was last made, changed or removed */
	uint32_t changed_ns;
	struct records *records; /* model/save.h; NULL: none */
	uint32_t record;
	struct module *module; /* that became this folder; NULL: none */
	uint64_t n_renamed;    /* number of its last rename; memops/lease.h */
	uint32_t slot, slot_generation;
};

/* Makes a root. */
void folder_init(struct folder *root, enum object_type holds);
void folder_deinit(struct folder *root);

/* ---- names ---- */

/* As `alice/x`; of an entry out of the tree, as it was. */
struct full_name entry_name(const struct entry *entry);

/* Gives an entry without a folder its name. Returns: 0; -EEXIST; -ENOMEM. */
int entry_add(struct entry *entry, struct folder *folder, const char *name);

/*
 * As entry_add(), for an entry of the last broker: the time of the folder stays. The
 * entry takes any place in listings.
 */
int entry_restore(struct entry *entry, struct folder *folder, const char *name);

/*
 * As entry_restore(), for a name that no other entry of the folder has, with the place
 * that the entry had in listings (entry_place()); 0: any. The name is given over, for
 * free(); NULL: -ENOMEM. The folder can't be listed before folder_settle(). Returns: 0;
 * -ENOMEM; -EEXIST: another entry has the place.
 */
int entry_restore_at(struct entry *entry, struct folder *folder, char *name,
		     uint32_t place);

/* For a record: 1 and the place of an entry in the tree; 0: it is out of the tree. */
uint32_t entry_place(const struct entry *entry);

/* All entries are back: listings go on in the next broker. Returns: 0; -ENOMEM. */
int folder_settle(struct folder *folder);

/* Takes an entry out of the tree. Its full name stays. */
void entry_remove(struct entry *entry);

/* The end of an entry that is out of the tree. */
void entry_deinit(struct entry *entry);

/* Makes room for n more entries. Returns: 0; -ENOMEM. */
int folder_reserve(struct folder *folder, uint32_t n);

/* A name for an entry, in a folder of the tree. */
struct name_place {
	struct folder *folder;
	const char *name;
	char *copy; /* of the name, for the entry; name_place_reserve() */
};

/*
 * Makes all that entries_move() of n entries needs at this place, so that it can't fail;
 * without a folder, the name alone. name_place_deinit() follows. Returns: 0; -ENOMEM.
 */
int name_place_reserve(struct name_place *place, uint32_t n);
void name_place_deinit(struct name_place *place);

/*
 * Gives n entries new names at once; names may pass from one to another. The new names
 * are free, or of these entries, and their places are reserved.
 */
void entries_move(struct entry **entries, struct name_place *places, size_t n);

/* NULL: the name is free. */
struct entry *folder_find(const struct folder *folder, const char *name);

/* Folders above an entry of this folder; 0: a root. */
unsigned int folder_depth(const struct folder *folder);

/* Whether the folder, with all folders below it, fits below so many folders. */
bool folder_fits(const struct folder *folder, unsigned int depth);

/* Whether the entry is the folder's own, or one above it. */
bool folder_is_below(const struct folder *folder, const struct entry *entry);

/* The entry's struct when it is a folder; NULL: something else. */
struct folder *entry_folder(struct entry *entry);

/* ---- folders ---- */

/*
 * Makes a folder. Returns: 0; -EEXIST; -ENOMEM; -EDQUOT when the owner's share is used
 * up; -ENAMETOOLONG beyond FOLDER_DEPTH_MAX levels.
 */
int folder_new(struct folder **ret_folder, struct registry *registry, struct folder *in,
	       const char *name, struct owner *owner);

/*
 * Makes a folder of a module without an image, at the same name. The module gives its
 * share back and leaves the tree. Returns: 0; -EDQUOT; -ENAMETOOLONG; -ENOMEM.
 */
int folder_from_module(struct folder **ret_folder, struct registry *registry,
		       struct module *module);
/* Undoes this, while the folder is empty. */
void folder_to_module(struct registry *registry, struct folder *folder);

/*
 * Makes a folder of its record, out of the tree, in its old slot. For save.c.
 * Returns: 0; -EEXIST, -ENOMEM.
 */
int folder_remake(struct folder **ret_folder, struct registry *registry,
		  struct owner *owner, uint32_t slot, uint32_t slot_generation);

/* Frees a folder without entries, in the tree or not. */
struct folder *folder_free(struct registry *registry, struct folder *folder);

/* The folder of a token, of either type that a folder's token has. NULL: none. */
struct folder *folder_get(const struct registry *registry, enum object_type type,
			  struct token token);

/* The type and the token by which the folder is known outside. */
struct object_ref folder_ref(const struct folder *folder);

/*
 * Charges another owner for the folder, and saves what was a module. The caller saves the
 * folder, in the same group of the records. Returns: 0; -EDQUOT.
 */
int folder_set_owner(struct folder *folder, struct owner *owner);

/* ---- names in lines ---- */

enum {
	FOLDER_READ = 4,
	FOLDER_WRITE = 2,
	FOLDER_SEARCH = 1,
};

/* Whether the folder's mode permits all of the access, as the kernel would decide. */
bool folder_may(const struct folder *folder, const struct caller *caller,
		unsigned int access);

/* The same, with a sentence. Returns: 0; -EACCES. */
int folder_check(const struct folder *folder, const struct caller *caller,
		 unsigned int access, struct refusal *refusal);

/*
 * Finds where a path has its name: the folder, which the caller may search, and the name
 * in it (in `path`). Returns: 0; -ENOENT, -ENOTDIR, -EACCES.
 */
int path_resolve(struct registry *registry, enum object_type holds, const char *path,
		 const struct caller *caller, struct name_place *ret_place,
		 struct refusal *refusal);

/*
 * The entry of a path, if it has the type. Returns: NULL: the name is free (ENOENT), of
 * another type (EISDIR), or the caller may not search its folder.
 */
struct entry *path_find(struct registry *registry, enum object_type type,
			const char *path, const struct caller *caller,
			struct refusal *refusal);

/* Refuses a name that is taken by a folder, or is none. Returns: -EISDIR; -ENOENT. */
int refuse_absent(struct refusal *refusal, enum object_type type,
		  const struct entry *entry, const char *path);

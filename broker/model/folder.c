/* SPDX-License-Identifier: MIT */
#include "model/folder.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/def.h"
#include "model/module.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/save.h"
#include "model/save_module.h"
#include "model/shares.h"
#include "record/records.h"

_Static_assert(FULL_NAME_MAX == (FOLDER_DEPTH_MAX + 1) * (OBJECT_NAME_MAX + 1) - 1,
	       "a full name has a name for each level");

void folder_init(struct folder *root, enum object_type holds)
{
	*root = (struct folder){ .holds = holds, .mode = 0777 };
}

void folder_deinit(struct folder *root)
{
	name_table_deinit(&root->names);
	place_table_deinit(&root->entries);
}

/* ---- names ---- */

/* Writes the name in front of `end`, with those of its folders. Returns: its start. */
static char *name_write(const struct entry *entry, char *end)
{
	const char *name = entry->name ?: "";
	size_t length = strlen(name);

	memcpy(end - length, name, length);
	end -= length;
	if (!entry->folder || !entry->folder->entry.folder)
		return end;
	*--end = '/';
	return name_write(&entry->folder->entry, end);
}

struct full_name entry_name(const struct entry *entry)
{
	char buffer[FULL_NAME_MAX + 1], *end = buffer + FULL_NAME_MAX, *start;
	struct full_name name;

	if (!entry->folder && entry->former) {
		strcpy(name.text, entry->former);
		return name;
	}
	*end = '\0';
	start = name_write(entry, end);
	memcpy(name.text, start, (size_t)(end - start) + 1);
	return name;
}

static void folder_touch(struct folder *folder)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	folder->changed_s = now.tv_sec;
	folder->changed_ns = (uint32_t)now.tv_nsec;
	folder_save(folder);
}

/* Counts a folder that comes to `in` (1) or leaves it (-1) in the folders above it. */
static void folder_count(const struct folder *folder, struct folder *in, int32_t sign)
{
	for (unsigned int up = 0; in && up < FOLDER_DEPTH_MAX; up++) {
		in->n_below[up] += (uint32_t)sign;
		for (unsigned int i = 0; up + 1 + i < FOLDER_DEPTH_MAX; i++)
			in->n_below[up + 1 + i] += (uint32_t)sign * folder->n_below[i];
		in = in->entry.folder;
	}
}

/* Names an entry in a folder that it comes to, or is in: the name becomes the entry's. */
static void entry_link(struct entry *entry, struct folder *folder, char *name)
{
	if (entry->folder != folder && entry_folder(entry))
		folder_count(entry_folder(entry), folder, 1);
	free(entry->name);
	entry->name = name;
	entry->folder = folder;
	name_table_add(&folder->names, entry);
}

static void entry_unname(struct entry *entry)
{
	name_table_remove(&entry->folder->names, entry);
	folder_touch(entry->folder);
}

/* Takes any place in the listings of a folder. Returns: 0; -ENOMEM. */
static int entry_take_place(struct entry *entry, struct folder *folder)
{
	return place_table_add(&folder->entries, entry, &entry->place);
}

static void entry_uncount(struct entry *entry)
{
	if (entry_folder(entry))
		folder_count(entry_folder(entry), entry->folder, -1);
}

int entry_add(struct entry *entry, struct folder *folder, const char *name)
{
	int r = entry_restore(entry, folder, name);

	if (r == 0)
		folder_touch(folder);
	return r;
}

/* The room and the bytes of a free name. Returns: 0; -EEXIST; -ENOMEM. */
static int name_reserve(struct folder *folder, const char *name, char **ret_copy)
{
	int r;

	if (folder_find(folder, name))
		return -EEXIST;
	r = name_table_reserve(&folder->names);
	if (r == 0 && !(*ret_copy = strdup(name)))
		r = -ENOMEM;
	return r;
}

int entry_restore(struct entry *entry, struct folder *folder, const char *name)
{
	_cleanup_free_ char *copy = NULL;
	int r;

	assert(!entry->folder);
	r = name_reserve(folder, name, &copy);
	if (r == 0)
		r = entry_take_place(entry, folder);
	if (r == 0)
		entry_link(entry, folder, take_ptr(copy));
	return r;
}

uint32_t entry_place(const struct entry *entry)
{
	return entry->folder ? entry->place + 1 : 0;
}

int entry_restore_at(struct entry *entry, struct folder *folder, char *name,
		     uint32_t place)
{
	int r = name ? name_table_reserve(&folder->names) : -ENOMEM;

	assert(!entry->folder);
	if (r == 0 && place)
		r = place_table_put(&folder->entries, entry, place - 1);
	if (r < 0) {
		free(name);
		return r;
	}
	entry->place = place - 1;
	entry_link(entry, folder, name);
	return 0;
}

/* Gives any place to an entry that had none. */
static int entry_settle(struct entry *entry, struct folder *folder)
{
	int r = entry_take_place(entry, folder);

	if (r == 0)
		entry_save(entry);
	return r;
}

int folder_settle(struct folder *folder)
{
	uint32_t n = folder->names.n_names, n_placed = folder->entries.n_used;
	_cleanup_free_ struct entry **entries = NULL;
	int r = 0;

	name_table_settle(&folder->names);
	if (n == n_placed)
		return 0;
	entries = name_table_list(&folder->names);
	if (!entries)
		return -ENOMEM;
	for (uint32_t i = 0; r == 0 && i < n; i++) {
		if (entries[i]->place == UINT32_MAX)
			r = entry_settle(entries[i], folder);
	}
	return r;
}

/* Takes an entry out of the tree that has no place any more. */
static void entry_leave(struct entry *entry)
{
	char *former =
		entry->folder->entry.folder ? strdup(entry_name(entry).text) : NULL;

	entry_uncount(entry);
	entry_unname(entry);
	entry->folder = NULL;
	entry->former = former;
}

void entry_remove(struct entry *entry)
{
	place_table_remove(&entry->folder->entries, entry->place);
	entry_leave(entry);
}

void entry_deinit(struct entry *entry)
{
	assert(!entry->folder);
	free(take_ptr(entry->former));
	free(take_ptr(entry->name));
}

int folder_reserve(struct folder *folder, uint32_t n)
{
	int r = place_table_reserve(&folder->entries, n);

	return r < 0 ? r : name_table_reserve(&folder->names);
}

int name_place_reserve(struct name_place *place, uint32_t n)
{
	int r = place->folder ? folder_reserve(place->folder, n) : 0;

	if (r == 0 && !place->copy && !(place->copy = strdup(place->name)))
		r = -ENOMEM;
	return r;
}

void name_place_deinit(struct name_place *place)
{
	free(take_ptr(place->copy));
}

void entries_move(struct entry **entries, struct name_place *places, size_t n)
{
	struct records *records = entry_records(entries[0]);

	records_begin(records);
	for (size_t i = 0; i < n; i++) {
		entry_unname(entries[i]);
		if (entries[i]->folder == places[i].folder)
			continue;
		place_table_remove(&entries[i]->folder->entries, entries[i]->place);
		entry_uncount(entries[i]);
	}
	for (size_t i = 0; i < n; i++) {
		struct folder *folder = places[i].folder;

		if (entries[i]->folder != folder &&
		    entry_take_place(entries[i], folder) < 0)
			abort(); /* room was reserved */
		entry_link(entries[i], folder, take_ptr(places[i].copy));
		folder_touch(folder);
		entry_save(entries[i]);
	}
	for (size_t i = 0; i < n; i++)
		place_table_trim(&places[i].folder->entries);
	records_end(records);
}

struct entry *folder_find(const struct folder *folder, const char *name)
{
	return name_table_find(&folder->names, name);
}

unsigned int folder_depth(const struct folder *folder)
{
	unsigned int depth = 0;

	for (; folder->entry.folder; folder = folder->entry.folder)
		depth++;
	return depth;
}

bool folder_fits(const struct folder *folder, unsigned int depth)
{
	unsigned int height = 1;

	for (unsigned int i = 0; i < FOLDER_DEPTH_MAX; i++)
		if (folder->n_below[i])
			height = i + 2;
	return depth + height <= FOLDER_DEPTH_MAX;
}

bool folder_is_below(const struct folder *folder, const struct entry *entry)
{
	for (; folder; folder = folder->entry.folder)
		if (&folder->entry == entry)
			return true;
	return false;
}

struct folder *entry_folder(struct entry *entry)
{
	if (!entry || entry->type != OBJECT_FOLDER)
		return NULL;
	return container_of(entry, struct folder, entry);
}

/* ---- folders ---- */

/* A folder that is not in the tree yet. Returns: 0; -EDQUOT, -ENOMEM. */
static int folder_make(struct folder **ret_folder, struct registry *registry,
		       const struct folder *in, struct owner *owner)
{
	struct folder *folder;
	int r = share_take(owner, SHARE_FOLDERS, 1);

	if (r < 0)
		return r;
	folder = calloc(1, sizeof(*folder));
	r = folder ? handle_table_add(&registry->folders, folder, &folder->slot,
				      &folder->slot_generation)
		   : -ENOMEM;
	if (r < 0) {
		share_give(owner, SHARE_FOLDERS, 1);
		free(folder);
		return r;
	}
	folder->entry.type = OBJECT_FOLDER;
	folder->holds = in->holds;
	folder->owner = owner;
	folder->gid = owner->gid;
	folder->mode = 0700;
	folder_touch(folder);
	*ret_folder = folder;
	return 0;
}

int folder_new(struct folder **ret_folder, struct registry *registry, struct folder *in,
	       const char *name, struct owner *owner)
{
	struct folder *folder;
	int r;

	if (folder_find(in, name))
		return -EEXIST;
	if (folder_depth(in) >= FOLDER_DEPTH_MAX)
		return -ENAMETOOLONG;
	r = folder_make(&folder, registry, in, owner);
	if (r < 0)
		return r;
	r = entry_add(&folder->entry, in, name);
	if (r < 0) {
		folder_free(registry, folder);
		return r;
	}
	folder->id = registry_new_id(registry, ID_FOLDER);
	r = folder_record_take(registry, folder);
	if (r < 0) {
		folder_free(registry, folder);
		return r;
	}
	folder_save(folder);
	*ret_folder = folder;
	return 0;
}

int folder_remake(struct folder **ret_folder, struct registry *registry,
		  struct owner *owner, uint32_t slot, uint32_t slot_generation)
{
	struct folder *folder = calloc(1, sizeof(*folder));
	int r = folder ? handle_table_put(&registry->folders, folder, slot,
					  slot_generation)
		       : -ENOMEM;

	if (r < 0) {
		free(folder);
		return r;
	}
	folder->entry.type = OBJECT_FOLDER;
	folder->holds = OBJECT_ALLOCATION;
	folder->owner = owner;
	folder->slot = slot;
	folder->slot_generation = slot_generation;
	share_take_beyond(owner, SHARE_FOLDERS, 1);
	*ret_folder = folder;
	return 0;
}

/*
 * The entry stands where the other stood, which leaves the tree. name: for free(); NULL:
 * the other's name passes over.
 */
static void entry_take_over(struct entry *entry, struct entry *other, char *name)
{
	struct folder *folder = other->folder;

	entry->place = other->place;
	place_table_replace(&folder->entries, entry->place, entry);
	entry_leave(other);
	entry_link(entry, folder, name ?: take_ptr(other->name));
	folder_touch(folder);
}

int folder_from_module(struct folder **ret_folder, struct registry *registry,
		       struct module *module)
{
	struct folder *in = module->entry.folder, *folder = NULL;
	_cleanup_free_ char *name = strdup(module->entry.name);
	int r = name ? 0 : -ENOMEM;

	if (folder_depth(in) >= FOLDER_DEPTH_MAX)
		return -ENAMETOOLONG;
	if (r < 0)
		return r;
	r = folder_make(&folder, registry, in, module->owner);
	if (r == 0)
		r = folder_reserve(folder, 1);
	if (r == 0)
		r = folder_record_take(registry, folder);
	if (r < 0) {
		if (folder)
			folder_free(registry, folder);
		return r;
	}
	records_begin(registry->records);
	entry_take_over(&folder->entry, &module->entry, take_ptr(name));
	folder->id = module->id;
	folder->gid = module->gid;
	folder->mode = module->folder_mode;
	folder->module = module;
	module_become(registry, module, folder);
	module_save(module);
	folder_save(folder);
	records_end(registry->records);
	*ret_folder = folder;
	return 0;
}

void folder_to_module(struct registry *registry, struct folder *folder)
{
	struct module *module = take_ptr(folder->module);

	records_begin(registry->records);
	free(take_ptr(module->entry.former));
	entry_take_over(&module->entry, &folder->entry, NULL);
	module_unbecome(registry, module);
	module_save(module);
	folder_free(registry, folder);
	records_end(registry->records);
}

struct folder *folder_free(struct registry *registry, struct folder *folder)
{
	if (folder->entry.folder)
		entry_remove(&folder->entry);
	entry_deinit(&folder->entry);
	records_begin(folder->records);
	folder_record_drop(folder);
	if (folder->module)
		module_free(registry, folder->module);
	records_end(folder->records);
	handle_table_remove(&registry->folders, folder->slot);
	name_table_deinit(&folder->names);
	place_table_deinit(&folder->entries);
	share_give(folder->owner, SHARE_FOLDERS, 1);
	free(folder);
	return NULL;
}

struct folder *folder_get(const struct registry *registry, enum object_type type,
			  struct token token)
{
	const struct module *module;

	if (type == OBJECT_FOLDER)
		return handle_table_get(&registry->folders, token.slot, token.generation);
	if (type != OBJECT_MODULE)
		return NULL;
	module = handle_table_get(&registry->modules, token.slot, token.generation);
	return module ? module->folder : NULL;
}

struct object_ref folder_ref(const struct folder *folder)
{
	if (folder->module)
		return (struct object_ref){
			OBJECT_MODULE,
			{ folder->module->slot, folder->module->slot_generation },
		};
	return (struct object_ref){ OBJECT_FOLDER,
				    { folder->slot, folder->slot_generation } };
}

int folder_set_owner(struct folder *folder, struct owner *owner)
{
	int r = share_take(owner, SHARE_FOLDERS, 1);

	if (r < 0)
		return r;
	share_give(folder->owner, SHARE_FOLDERS, 1);
	folder->owner = owner;
	if (folder->module) {
		folder->module->owner = owner;
		module_save(folder->module);
	}
	return 0;
}

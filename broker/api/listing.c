/* SPDX-License-Identifier: MIT */
/*
 * Listing the objects of a folder, a few at a time: the caller goes on with the cookie of
 * the last entry. registry.lock is held meanwhile, so a listing looks only at what is in
 * the folder, or at the folder's own type: one user may have a million of others.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "api/broker.h"
#include "api/folders.h"
#include "api/object_stat.h"
#include "base/handle_table.h"
#include "model/allocation.h"
#include "model/module.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/stream.h"
#include "process/broker.h"

/* Whether the caller's listing shows the object. */
static bool is_listed(enum object_type type, const void *object,
		      const struct caller *caller)
{
	const struct stream *stream = object;

	if (type == OBJECT_STREAM)
		return !stream->is_default || stream->owner->uid == caller->uid;
	return true;
}

static void list_one(enum object_type type, const void *object, struct token token,
		     uint64_t next, struct listing *ret_entry)
{
	snprintf(ret_entry->name, sizeof(ret_entry->name), "%.255s",
		 object_name(type, object).text);
	ret_entry->object = (struct object_ref){ type, token };
	ret_entry->next = next;
}

/* The names in a folder, by their places. */
static size_t list_entries(const struct folder *folder, uint64_t cookie,
			   struct listing *entries, size_t n)
{
	const struct allocation *allocation;
	uint32_t place = (uint32_t)cookie;
	struct entry *entry;
	size_t found = 0;

	if (!folder || cookie > PLACES_MAX)
		return 0;
	for (; found < n && (entry = place_table_next(&folder->entries, &place));
	     place++) {
		allocation = allocation_of(entry);
		if (allocation && allocation->state == ALLOCATION_MAKING)
			continue;
		strcpy(entries[found].name, entry->name);
		entries[found].object = entry_ref(entry);
		entries[found++].next = place + 1;
	}
	return found;
}

/*
 * The cookie is behind the slot of the function listed last. Functions stay in their
 * image's list, in the order in which they came, until the image goes. Then the listing
 * ends.
 */
static const struct function *function_behind(struct registry *registry,
					      const struct image *image, uint64_t cookie)
{
	const struct function *last;

	if (!cookie)
		return image->functions;
	last = handle_table_at(&registry->functions, cookie - 1);
	return last && last->image == image ? last->hh.next : NULL;
}

static size_t list_functions(struct registry *registry, struct token in, uint64_t cookie,
			     struct listing *entries, size_t n)
{
	const struct module *module = module_get(registry, in);
	const struct function *function = NULL;
	size_t found = 0;

	if (module && module->image)
		function = function_behind(registry, module->image, cookie);
	for (; function && found < n; function = function->hh.next)
		list_one(OBJECT_FUNCTION, function,
			 (struct token){ function->slot, function->slot_generation },
			 function->slot + 1, &entries[found++]);
	return found;
}

static size_t list_objects(struct registry *registry, enum object_type type,
			   const struct caller *caller, uint64_t cookie,
			   struct listing *entries, size_t n)
{
	struct handle_table *slots = object_slots(registry, type);
	uint32_t slot = (uint32_t)cookie;
	size_t found = 0;
	void *object;

	if (!slots || cookie > SLOTS_MAX)
		return 0;
	if (type == OBJECT_STREAM && cookie == 0)
		(void)stream_find_default(registry, "default", caller);
	for (; found < n && (object = handle_table_next(slots, &slot)); slot++) {
		if (is_listed(type, object, caller))
			list_one(type, object,
				 (struct token){ slot, slots->table[slot].generation },
				 slot + 1, &entries[found++]);
	}
	return found;
}

static uint64_t id_of(struct registry *registry, struct object_ref object)
{
	struct object_stat stat = { 0 };

	(void)object_stat_held(registry, object.type, object.token, &stat);
	return stat.id;
}

size_t broker_list(struct broker *broker, enum object_type type, struct token in,
		   const struct caller *caller, uint64_t cookie, struct listing *entries,
		   size_t n)
{
	size_t found;

	pthread_mutex_lock(&broker->registry->lock);
	if (type == OBJECT_FUNCTION)
		found = list_functions(broker->registry, in, cookie, entries, n);
	else if (type == OBJECT_ALLOCATION || type == OBJECT_MODULE)
		found = list_entries(folder_in(broker->registry, type, in), cookie,
				     entries, n);
	else
		found = list_objects(broker->registry, type, caller, cookie, entries, n);
	for (size_t i = 0; i < found; i++)
		entries[i].id = id_of(broker->registry, entries[i].object);
	pthread_mutex_unlock(&broker->registry->lock);
	return found;
}

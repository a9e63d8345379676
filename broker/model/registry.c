/* SPDX-License-Identifier: MIT */
#include "model/registry.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "model/owner.h"
#include "model/save.h"
#include "model/stream.h"
#include "record/records.h"

/* A waiting thread wakes up meanwhile: whoever takes the lock at once is first. */
#define OTHERS_NS 50000

/* Allocations looked at before others get the lock. */
#define WALK_PIECE 512

/*
 * The first id of an allocation is a random number below 2^48. A program or a script may
 * keep an id over a restart of the mount: no other allocation shall have that id then.
 */
#define FIRST_ID_BITS 48

static uint64_t first_id(void)
{
	uint64_t id;

	if (getrandom(&id, sizeof(id), 0) != sizeof(id))
		abort();
	return id >> (64 - FIRST_ID_BITS);
}

void registry_init(struct registry *registry)
{
	*registry = (struct registry){ .next_id[ID_ALLOCATION] = first_id() };
	pthread_mutex_init(&registry->lock, NULL);
	clock_cond_init(&registry->idle);
	registry->shared_meter = &registry->unsaved_meter;
	handle_table_init(&registry->allocations);
	handle_table_init(&registry->streams);
	handle_table_init(&registry->owners);
	handle_table_init(&registry->devices);
	handle_table_init(&registry->modules);
	handle_table_init(&registry->functions);
	handle_table_init(&registry->folders);
	folder_init(&registry->allocation_root, OBJECT_ALLOCATION);
	folder_init(&registry->module_root, OBJECT_MODULE);
}

/* Frees the folders, those inside of others first. */
static void registry_free_folders(struct registry *registry)
{
	struct folder *folder;
	uint32_t slot;

	while (registry->folders.n_used) {
		for (slot = 0; (folder = handle_table_next(&registry->folders, &slot));
		     slot++) {
			if (!folder->names.n_names)
				folder_free(registry, folder);
		}
	}
}

void registry_deinit(struct registry *registry)
{
	struct owner *owner, *safe;
	struct device *device;
	uint32_t slot;

	registry_free_folders(registry);
	HASH_ITER (hh, registry->owners_by_uid, owner, safe) {
		for (int i = 0; i < DEVICES_MAX; i++) {
			if (owner->defaults[i])
				stream_free(registry, owner->defaults[i]);
		}
		owner_free(registry, owner);
	}
	for (slot = 0; (device = handle_table_next(&registry->devices, &slot)); slot++) {
		handle_table_remove(&registry->devices, slot);
		free(device);
	}
	assert(!registry->streams_by_name);
	for (int i = 0; i < FREED_KEPT; i++)
		free(registry->freed[i].name);
	folder_deinit(&registry->allocation_root);
	folder_deinit(&registry->module_root);
	handle_table_deinit(&registry->folders);
	handle_table_deinit(&registry->allocations);
	handle_table_deinit(&registry->streams);
	handle_table_deinit(&registry->owners);
	handle_table_deinit(&registry->devices);
	handle_table_deinit(&registry->modules);
	handle_table_deinit(&registry->functions);
	pthread_cond_destroy(&registry->idle);
	pthread_mutex_destroy(&registry->lock);
}

void registry_let_others(struct registry *registry)
{
	pthread_mutex_unlock(&registry->lock);
	clock_pause(OTHERS_NS);
	pthread_mutex_lock(&registry->lock);
}

struct allocation *allocation_walk_next(struct registry *registry,
					struct allocation_walk *walk)
{
	struct allocation *allocation;

	if (walk->n_looks++ == WALK_PIECE) {
		walk->n_looks = 1;
		registry_let_others(registry);
	}
	allocation = handle_table_next(&registry->allocations, &walk->slot);
	walk->slot++;
	return allocation;
}

void registry_less_busy(struct registry *registry)
{
	if (--registry->n_busy == 0)
		pthread_cond_broadcast(&registry->idle);
}

void registry_note_freed(struct registry *registry, const struct allocation *allocation)
{
	struct freed *freed = &registry->freed[registry->n_freed++ % FREED_KEPT];

	freed->token = (struct token){ allocation->slot, allocation->slot_generation };
	freed->id = allocation->id;
	free(freed->name);
	freed->name = strdup(allocation_name(allocation).text);
}

const char *freed_name(const struct freed *freed)
{
	return freed && freed->name ? freed->name : "?";
}

const struct freed *registry_find_freed(const struct registry *registry,
					struct token token)
{
	for (int i = 0; i < FREED_KEPT; i++) {
		const struct freed *freed = &registry->freed[i];

		if (freed->token.slot == token.slot &&
		    freed->token.generation == token.generation)
			return freed;
	}
	return NULL;
}

uint64_t registry_new_id(struct registry *registry, enum id_type type)
{
	const struct broker_record *old =
		records_get(registry->records, RECORD_BROKER, 1);
	uint64_t id = ++registry->next_id[type];

	/* The saved ids are ahead, and saved anew when they are used up. */
	if (old && id >= broker_record_id(old, type))
		registry_save(registry);
	return id;
}

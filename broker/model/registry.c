/* SPDX-License-Identifier: MIT */
#include "model/registry.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/number.h"
#include "model/access.h"

static const struct {
	const char *name;
	bool durable;
} kinds[N_KINDS] = {
	[KIND_DEVICE] = { "device", true }, [KIND_DIRECT] = { "direct", false },
	[KIND_ASYNC] = { "async", false },  [KIND_MANAGED] = { "managed", false },
	[KIND_HOST] = { "host", true },
};

const char *kind_name(enum allocation_kind kind)
{
	return kinds[kind].name;
}

int kind_find(const char *name)
{
	for (int i = 0; i < N_KINDS; i++) {
		if (strcmp(kinds[i].name, name) == 0)
			return i;
	}
	return -EINVAL;
}

bool kind_is_durable(enum allocation_kind kind)
{
	return kinds[kind].durable;
}

bool kind_has_device(enum allocation_kind kind)
{
	return kind != KIND_HOST && kind != KIND_MANAGED;
}

int name_check(const char *name)
{
	size_t length = strlen(name);

	if (length > NAME_MAX_LENGTH)
		return -ENAMETOOLONG;
	if (length == 0 || !(isalnum((unsigned char)name[0]) || name[0] == '_'))
		return -EINVAL;
	for (size_t i = 1; i < length; i++) {
		if (!isalnum((unsigned char)name[i]) && !strchr("_.-", name[i]))
			return -EINVAL;
	}
	return 0;
}

void registry_init(struct registry *registry)
{
	*registry = (struct registry){ 0 };
	pthread_mutex_init(&registry->lock, NULL);
	clock_cond_init(&registry->idle);
	slots_init(&registry->allocations);
	slots_init(&registry->streams);
	slots_init(&registry->owners);
	slots_init(&registry->devices);
	slots_init(&registry->modules);
	slots_init(&registry->functions);
}

void registry_deinit(struct registry *registry)
{
	struct owner *owner, *safe;
	struct device *device;
	uint32_t slot;

	HASH_ITER (hh, registry->owners_by_uid, owner, safe) {
		for (int i = 0; i < DEVICES_MAX; i++) {
			if (owner->defaults[i])
				stream_free(registry, owner->defaults[i]);
		}
		HASH_DEL(registry->owners_by_uid, owner);
		slots_remove(&registry->owners, owner->slot);
		free(owner);
	}
	for (slot = 0; (device = slots_next(&registry->devices, &slot)); slot++) {
		slots_remove(&registry->devices, slot);
		free(device);
	}
	assert(!registry->allocations_by_name && !registry->streams_by_name &&
	       !registry->modules_by_name);
	slots_deinit(&registry->allocations);
	slots_deinit(&registry->streams);
	slots_deinit(&registry->owners);
	slots_deinit(&registry->devices);
	slots_deinit(&registry->modules);
	slots_deinit(&registry->functions);
	pthread_cond_destroy(&registry->idle);
	pthread_mutex_destroy(&registry->lock);
}

/* ---- allocations ---- */

int allocation_new(struct allocation **ret_allocation, struct registry *registry,
		   const char *name, uint64_t size, struct owner *owner)
{
	struct allocation *allocation;
	int r;

	if (allocation_find(registry, name))
		return -EEXIST;
	r = share_take(owner, SHARE_ALLOCATIONS, 1);
	if (r < 0)
		return r;
	allocation = calloc(1, sizeof(*allocation));
	if (!allocation) {
		share_give(owner, SHARE_ALLOCATIONS, 1);
		return -ENOMEM;
	}
	allocation->name = strdup(name);
	if (!allocation->name) {
		share_give(owner, SHARE_ALLOCATIONS, 1);
		free(allocation);
		return -ENOMEM;
	}
	r = slots_add(&registry->allocations, allocation, &allocation->slot,
		      &allocation->slot_generation);
	if (r < 0) {
		share_give(owner, SHARE_ALLOCATIONS, 1);
		free(allocation->name);
		free(allocation);
		return r;
	}
	allocation->id = ++registry->next_id[0];
	allocation->size = size;
	allocation->owner = owner;
	allocation->state = ALLOCATION_MAKING;
	allocation->pointer_generation = 1;
	HASH_ADD_KEYPTR(hh, registry->allocations_by_name, allocation->name,
			strlen(allocation->name), allocation);
	*ret_allocation = allocation;
	return 0;
}

void allocation_publish(struct registry *registry, struct allocation *allocation)
{
	struct owner *owner = allocation->owner;

	allocation->state = ALLOCATION_LIVE;
	allocation->created_s = time(NULL);
	registry->n_allocations++;
	registry->bytes += allocation->size;
	registry->bytes_by_kind[allocation->kind] += allocation->size;
	if (allocation->kind == KIND_MANAGED)
		registry->managed_on[allocation->device] += allocation->size;
	registry->peak_bytes = MAX(registry->peak_bytes, registry->bytes);
	if (allocation->kind != KIND_HOST)
		registry->n_allocations_on[allocation->device]++;
	owner->n_allocations++;
	owner->bytes += allocation->size;
	owner->peak_bytes = MAX(owner->peak_bytes, owner->bytes);
	if (allocation->managed)
		managed_count(allocation->managed, &registry->managed);
}

void allocation_lose(struct registry *registry, struct allocation *allocation,
		     const char *why)
{
	assert(allocation->state == ALLOCATION_LIVE);
	allocation->state = ALLOCATION_LOST;
	allocation->lost_why = strdup(why);
	allocation->pointer_generation++;
	if (allocation->managed)
		managed_uncount(allocation->managed, &registry->managed);
}

void allocation_set_stream(struct allocation *allocation, struct stream *stream)
{
	if (allocation->stream)
		allocation->stream->n_allocations--;
	allocation->stream = stream;
	if (stream)
		stream->n_allocations++;
}

void allocation_withdraw(struct registry *registry, struct allocation *allocation)
{
	assert(allocation->state != ALLOCATION_FREED);
	HASH_DEL(registry->allocations_by_name, allocation);
	slots_remove(&registry->allocations, allocation->slot);
	if (allocation->state != ALLOCATION_MAKING) {
		registry->n_allocations--;
		allocation->owner->n_allocations--;
		if (allocation->kind != KIND_HOST)
			registry->n_allocations_on[allocation->device]--;
		if (allocation->managed)
			managed_uncount(allocation->managed, &registry->managed);
		allocation->state = ALLOCATION_FREED;
	}
}

struct allocation *allocation_free(struct registry *registry,
				   struct allocation *allocation)
{
	if (!allocation)
		return NULL;
	assert(!allocation->uses && allocation->n_works == 0);
	if (allocation->state == ALLOCATION_FREED) {
		registry->bytes -= allocation->size;
		registry->bytes_by_kind[allocation->kind] -= allocation->size;
		if (allocation->kind == KIND_MANAGED)
			registry->managed_on[allocation->device] -= allocation->size;
		allocation->owner->bytes -= allocation->size;
	}
	share_give(allocation->owner, SHARE_ALLOCATIONS, 1);
	share_give(allocation->owner, SHARE_DESCRIPTORS, allocation->has_descriptor);
	if (allocation->lender)
		share_give(allocation->lender, SHARE_DESCRIPTORS, 1);
	allocation_set_stream(allocation, NULL);
	managed_free(allocation->managed, &registry->managed);
	free(allocation->name);
	free(allocation->tag);
	free(allocation->zeroing_failure);
	free(allocation->lost_why);
	free(allocation);
	return NULL;
}

struct allocation *allocation_find(const struct registry *registry, const char *name)
{
	struct allocation *allocation;

	HASH_FIND(hh, registry->allocations_by_name, name, strlen(name), allocation);
	return allocation;
}

struct allocation *allocation_get(const struct registry *registry, uint32_t slot,
				  uint32_t generation)
{
	struct allocation *allocation =
		slots_get(&registry->allocations, slot, generation);

	return allocation && allocation->state != ALLOCATION_MAKING ? allocation : NULL;
}

int allocation_rename(struct registry *registry, struct allocation *allocation,
		      const char *name)
{
	char *copy;

	if (allocation_find(registry, name))
		return -EEXIST;
	copy = strdup(name);
	if (!copy)
		return -ENOMEM;
	HASH_DEL(registry->allocations_by_name, allocation);
	free(allocation->name);
	allocation->name = copy;
	HASH_ADD_KEYPTR(hh, registry->allocations_by_name, allocation->name,
			strlen(allocation->name), allocation);
	return 0;
}

/* ---- owners ---- */

struct owner *owner_get(struct registry *registry, uid_t uid, gid_t gid)
{
	struct owner *owner;

	HASH_FIND(hh, registry->owners_by_uid, &uid, sizeof(uid), owner);
	if (owner)
		return owner;
	owner = calloc(1, sizeof(*owner));
	if (!owner)
		return NULL;
	owner->uid = uid;
	owner->gid = gid;
	if (slots_add(&registry->owners, owner, &owner->slot, &owner->slot_generation) <
	    0) {
		free(owner);
		return NULL;
	}
	HASH_ADD(hh, registry->owners_by_uid, uid, sizeof(owner->uid), owner);
	return owner;
}

uint32_t owner_n_sent(const struct registry *registry, const struct owner *owner)
{
	const struct stream *stream, *safe;
	uint32_t n_sent = 0;

	HASH_ITER (hh, registry->streams_by_name, stream, safe)
		n_sent += stream->owner == owner ? stream->n_sent : 0;
	for (unsigned int i = 0; i < DEVICES_MAX; i++)
		n_sent += owner->defaults[i] ? owner->defaults[i]->n_sent : 0;
	return n_sent;
}

/* ---- streams ---- */

/*
 * The lowest free wire id of the owner's streams; 0, which is no stream, when all are
 * used.
 */
static uint32_t wire_stream_get(struct owner *owner)
{
	owner->wire_streams[0] |= 1;
	for (uint32_t i = 0; i < ARRAY_SIZE(owner->wire_streams); i++) {
		if (~owner->wire_streams[i]) {
			uint32_t bit = (uint32_t)__builtin_ctzll(~owner->wire_streams[i]);

			owner->wire_streams[i] |= (uint64_t)1 << bit;
			return i * 64 + bit;
		}
	}
	return 0;
}

static void wire_stream_put(struct owner *owner, uint32_t id)
{
	owner->wire_streams[id / 64] &= ~((uint64_t)1 << (id % 64));
}

int stream_new(struct stream **ret_stream, struct registry *registry, const char *name,
	       struct owner *owner, uint32_t device, bool is_default)
{
	struct stream *stream;
	int r;

	if (!is_default && stream_find(registry, name))
		return -EEXIST;
	stream = calloc(1, sizeof(*stream));
	if (!stream)
		return -ENOMEM;
	stream->wire_id = wire_stream_get(owner);
	if (!stream->wire_id) {
		free(stream);
		return -ENFILE;
	}
	stream->name = strdup(name);
	r = stream->name ? slots_add(&registry->streams, stream, &stream->slot,
				     &stream->slot_generation)
			 : -ENOMEM;
	if (r < 0) {
		wire_stream_put(owner, stream->wire_id);
		free(stream->name);
		free(stream);
		return r;
	}
	stream->id = ++registry->next_id[1];
	stream->owner = owner;
	stream->device = device;
	stream->is_default = is_default;
	stream->created_s = time(NULL);
	if (!is_default) {
		HASH_ADD_KEYPTR(hh, registry->streams_by_name, stream->name,
				strlen(stream->name), stream);
		registry->n_streams++;
	}
	*ret_stream = stream;
	return 0;
}

struct stream *stream_free(struct registry *registry, struct stream *stream)
{
	assert(stream->n_works == 0 && !stream->last);
	if (!stream->is_default) {
		HASH_DEL(registry->streams_by_name, stream);
		registry->n_streams--;
	}
	slots_remove(&registry->streams, stream->slot);
	wire_stream_put(stream->owner, stream->wire_id);
	free(stream->failure);
	free(stream->name);
	free(stream);
	return NULL;
}

struct stream *stream_find(const struct registry *registry, const char *name)
{
	struct stream *stream;

	HASH_FIND(hh, registry->streams_by_name, name, strlen(name), stream);
	return stream;
}

struct stream *owner_default_stream(struct registry *registry, struct owner *owner,
				    uint32_t device)
{
	char name[32] = "default";

	if (owner->defaults[device])
		return owner->defaults[device];
	if (device > 0)
		snprintf(name, sizeof(name), "default.%u", device);
	if (stream_new(&owner->defaults[device], registry, name, owner, device, true) < 0)
		return NULL;
	return owner->defaults[device];
}

void allocation_written(struct allocation *allocation)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	allocation->written_s = now.tv_sec;
	allocation->written_ns = (uint32_t)now.tv_nsec;
	allocation->n_written++;
}

int refuse_lost(struct refusal *refusal, const struct allocation *allocation)
{
	return refuse(refusal, ESTALE,
		      "allocation %s is lost: the worker that held it %s; free it",
		      allocation->name,
		      allocation->lost_why ? allocation->lost_why : "ended");
}

bool stream_name_is_default(const char *name)
{
	return strncmp(name, "default", 7) == 0 && (!name[7] || name[7] == '.');
}

struct stream *stream_find_default(struct registry *registry, const char *name,
				   const struct caller *caller)
{
	struct owner *owner;
	uint64_t device = 0;

	if (!stream_name_is_default(name) ||
	    (name[7] && (name[8] == '0' || number_parse(name + 8, &device) < 0)))
		return NULL;
	if (device >= registry->n_devices)
		return NULL;
	owner = owner_get(registry, caller->uid, caller->gid);
	return owner ? owner_default_stream(registry, owner, (uint32_t)device) : NULL;
}

struct stream *stream_find_named(struct registry *registry, const char *name,
				 const struct caller *caller)
{
	struct stream *stream = stream_find(registry, name);

	if (stream || strcmp(name, "default") == 0)
		return stream;
	return stream_find_default(registry, name, caller);
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
	strcpy(freed->name, allocation->name);
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

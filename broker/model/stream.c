/* SPDX-License-Identifier: MIT */
#include "model/stream.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <utlist.h>

#include "base/def.h"
#include "base/number.h"
#include "model/access.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/save_stream.h"
#include "model/shares.h"

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

/* A stream without a place in any table. Returns: 0; -ENFILE, -ENOMEM. */
static int stream_make(struct stream **ret_stream, struct owner *owner, const char *name,
		       uint32_t device, bool is_default)
{
	struct stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return -ENOMEM;
	stream->name = strdup(name);
	stream->wire_id = stream->name ? wire_stream_get(owner) : 0;
	if (!stream->wire_id) {
		int r = stream->name ? -ENFILE : -ENOMEM;

		free(stream->name);
		free(stream);
		return r;
	}
	stream->owner = owner;
	stream->device = device;
	stream->is_default = is_default;
	*ret_stream = stream;
	return 0;
}

static void stream_discard(struct stream *stream)
{
	wire_stream_put(stream->owner, stream->wire_id);
	free(stream->failure);
	free(stream->name);
	free(stream);
}

static void stream_list(struct registry *registry, struct stream *stream)
{
	if (stream->is_default)
		return;
	HASH_ADD_KEYPTR(hh, registry->streams_by_name, stream->name, strlen(stream->name),
			stream);
	DL_APPEND(stream->owner->streams, stream);
	registry->n_streams++;
}

int stream_new(struct stream **ret_stream, struct registry *registry, const char *name,
	       struct owner *owner, uint32_t device, bool is_default)
{
	struct stream *stream = NULL;
	int r;

	if (!is_default && stream_find(registry, name))
		return -EEXIST;
	r = share_take(owner, SHARE_STREAMS, !is_default);
	if (r < 0)
		return r;
	r = stream_make(&stream, owner, name, device, is_default);
	if (r == 0)
		r = stream_record_take(registry, stream);
	if (r == 0)
		r = handle_table_add(&registry->streams, stream, &stream->slot,
				     &stream->slot_generation);
	if (r < 0) {
		share_give(owner, SHARE_STREAMS, !is_default);
		if (stream) {
			stream_record_drop(stream);
			stream_discard(stream);
		}
		return r;
	}
	stream->id = registry_new_id(registry, ID_STREAM);
	stream->created_s = time(NULL);
	stream_list(registry, stream);
	stream_save(stream);
	*ret_stream = stream;
	return 0;
}

int stream_remake(struct stream **ret_stream, struct registry *registry,
		  struct owner *owner, const struct stream_record *record)
{
	bool is_default = record->flags & RECORD_DEFAULT;
	struct stream *stream;
	int r;

	if (record->device >= registry->n_devices ||
	    strlen(record->name) > OBJECT_NAME_MAX ||
	    stream_name_is_default(record->name) != is_default)
		return -EINVAL;
	if (is_default ? owner->defaults[record->device] != NULL
		       : stream_find(registry, record->name) != NULL)
		return -EEXIST;
	r = stream_make(&stream, owner, record->name, record->device, is_default);
	if (r < 0)
		return r;
	stream->slot = record->slot;
	stream->slot_generation = record->slot_generation;
	r = handle_table_put(&registry->streams, stream, stream->slot,
			     stream->slot_generation);
	if (r < 0) {
		stream_discard(stream);
		return r;
	}
	share_restore(owner, SHARE_STREAMS, !is_default);
	stream_list(registry, stream);
	if (is_default)
		owner->defaults[stream->device] = stream;
	*ret_stream = stream;
	return 0;
}

struct stream *stream_free(struct registry *registry, struct stream *stream)
{
	assert(stream->n_works == 0 && !stream->last);
	if (!stream->is_default) {
		HASH_DEL(registry->streams_by_name, stream);
		DL_DELETE(stream->owner->streams, stream);
		registry->n_streams--;
		share_give(stream->owner, SHARE_STREAMS, 1);
	}
	handle_table_remove(&registry->streams, stream->slot);
	stream_record_drop(stream);
	stream_discard(stream);
	return NULL;
}

void stream_add_sent(struct stream *stream, int n)
{
	stream->n_sent += (uint32_t)n;
	stream->owner->n_sent += (uint32_t)n;
}

void stream_note_use(struct stream *stream)
{
	if (stream->used)
		return;
	stream->used = true;
	stream_save_flags(stream);
}

/* ---- work without a waiter ---- */

void stream_begin_unawaited(struct stream *stream)
{
	if (stream->n_unawaited++ == 0)
		stream_save_flags(stream);
}

void stream_end_unawaited(struct stream *stream)
{
	if (--stream->n_unawaited == 0)
		stream_save_flags(stream);
}

void stream_fail(struct stream *stream, int error, const char *sentence)
{
	if (stream->failed)
		return;
	stream->failed = error;
	free(stream->failure);
	stream->failure = strdup(sentence);
	stream_save_failure(stream);
}

int stream_take_failure(struct stream *stream, char **ret_sentence)
{
	int error = stream->failed;

	*ret_sentence = take_ptr(stream->failure);
	stream->failed = 0;
	if (error)
		stream_save_failure(stream);
	return error;
}

/* ---- names ---- */

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

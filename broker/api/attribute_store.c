/* SPDX-License-Identifier: MIT */
/* Values that users write to attributes: `map`, `tag`, a stream's `priority`. */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "api/attribute.h"
#include "api/broker.h"
#include "api/object_fail.h"
#include "base/handle_table.h"
#include "base/number.h"
#include "base/refusal.h"
#include "control/verbs.h"
#include "kernels/module_use.h"
#include "memops/seal.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/journal.h"
#include "model/location.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/save.h"
#include "model/save_stream.h"
#include "model/stream.h"
#include "op/op.h"
#include "process/broker.h"

#define PRIORITY_MAX 1000

static int store_stream_device(struct broker *broker, struct stream *stream,
			       const char *value, struct refusal *refusal)
{
	int r = line_device(value, broker->registry, &stream->device, refusal);

	if (r == 0)
		stream_save(stream);
	return r;
}

static int store_stream_priority(struct broker *broker, struct stream *stream,
				 const char *value, struct refusal *refusal)
{
	uint64_t number = 0;
	bool negative = value[0] == '-';

	(void)broker;
	if (number_parse(value + negative, &number) < 0 || number > PRIORITY_MAX)
		return refuse(
			refusal, EINVAL,
			"'%s' is not a priority: use a number from -%d to %d, lower "
			"is more urgent",
			value, PRIORITY_MAX, PRIORITY_MAX);
	stream->priority = negative ? -(int32_t)number : (int32_t)number;
	stream_save(stream);
	return 0;
}

/* Under registry.lock. */
static int store_stream(struct broker *broker, struct stream *stream,
			const struct attribute *attribute, const struct caller *caller,
			const char *value, struct refusal *refusal)
{
	static const struct {
		const char *name;
		int (*store)(struct broker *broker, struct stream *stream,
			     const char *value, struct refusal *refusal);
	} stores[] = {
		{ "device", store_stream_device },
		{ "priority", store_stream_priority },
	};

	if (caller->uid != 0 && caller->uid != stream->owner->uid)
		return refuse(refusal, EPERM,
			      "stream %s belongs to uid %u, not to uid %u", stream->name,
			      stream->owner->uid, caller->uid);
	if (stream->is_default || stream->used)
		return refuse(
			refusal, EBUSY, "stream %s %s: its %s can't change%s",
			stream->name, stream->used ? "is in use" : "is always there",
			attribute->name,
			stream->used ? " any more; rmdir it and make it again" : "");
	for (size_t i = 0; i < ARRAY_SIZE(stores); i++) {
		if (strcmp(attribute->name, stores[i].name) == 0)
			return stores[i].store(broker, stream, value, refusal);
	}
	assert(false);
	return -EINVAL;
}

/* Returns: 0; -EPERM. */
static int check_owner(const struct caller *caller, const struct allocation *allocation,
		       struct refusal *refusal)
{
	if (caller_may(caller, allocation, ACCESS_OWN))
		return 0;
	return refuse(refusal, EPERM, "allocation %s belongs to uid %u, not to uid %u",
		      allocation_name(allocation).text, allocation->owner->uid,
		      caller->uid);
}

/* Under registry.lock. */
static int store_map(struct broker *broker, struct allocation *allocation,
		     const struct caller *caller, const char *value,
		     struct refusal *refusal)
{
	bool readers;
	int r = check_owner(caller, allocation, refusal);

	if (r == 0)
		r = line_map(value, &readers, refusal);
	if (r < 0)
		return r;
	allocation->map_readers = readers;
	allocation_save(allocation);
	journal_event_by(broker->journal, caller, "change allocations/%s map=%s",
			 allocation_name(allocation).text, value);
	return 0;
}

/* Under registry.lock. `none` takes the tag off. */
static int store_tag(struct broker *broker, struct allocation *allocation,
		     const struct caller *caller, const char *value,
		     struct refusal *refusal)
{
	bool none = strcmp(value, "none") == 0;
	int r = check_owner(caller, allocation, refusal);

	if (r == 0)
		r = line_tag(value, refusal);
	if (r == 0 && allocation_set_tag(allocation, none ? NULL : value) < 0)
		r = refuse(refusal, ENOMEM, "no memory in the broker");
	if (r < 0)
		return r;
	journal_event_by(broker->journal, caller, "change allocations/%s tag=%s",
			 allocation_name(allocation).text, value);
	return 0;
}

/* Under registry.lock. */
static int store_sealed(struct broker *broker, struct allocation *allocation,
			const struct caller *caller, const char *value,
			struct refusal *refusal)
{
	struct op *ready = NULL;
	int r;

	if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
		return refuse(refusal, EINVAL, "sealed takes 1, not '%s'", value);
	if (*value == '0') {
		r = check_owner(caller, allocation, refusal);
		if (r == 0 && allocation->sealed)
			r = refuse(refusal, EPERM, "allocation %s is sealed, for good",
				   allocation_name(allocation).text);
		return r;
	}
	r = seal_check(caller, allocation, refusal);
	if (r == 0)
		r = seal_prepare(broker, allocation, &ready, refusal);
	if (r == 0)
		seal(broker, allocation, caller, &ready);
	op_start_later(ready);
	return r;
}

/* Under registry.lock. */
static int store_allocation(struct broker *broker, struct allocation *allocation,
			    const struct attribute *attribute,
			    const struct caller *caller, const char *value,
			    struct refusal *refusal)
{
	static const struct {
		const char *name;
		int (*store)(struct broker *broker, struct allocation *allocation,
			     const struct caller *caller, const char *value,
			     struct refusal *refusal);
	} stores[] = {
		{ "map", store_map },
		{ "sealed", store_sealed },
		{ "tag", store_tag },
	};

	for (size_t i = 0; i < ARRAY_SIZE(stores); i++) {
		if (strcmp(attribute->name, stores[i].name) == 0)
			return stores[i].store(broker, allocation, caller, value,
					       refusal);
	}
	assert(false);
	return -EINVAL;
}

/* Under registry.lock. */
static int store_object(struct broker *broker, enum object_type type, struct token token,
			const struct attribute *attribute, const struct caller *caller,
			const char *value, struct full_name *ret_name,
			struct refusal *refusal)
{
	void *object = object_get(broker->registry, type, token);

	if (!object)
		return refuse(refusal, ESTALE, "the object has been removed");
	*ret_name = object_name(type, object);
	if (type == OBJECT_ALLOCATION)
		return store_allocation(broker, object, attribute, caller, value,
					refusal);
	if (type == OBJECT_STREAM)
		return store_stream(broker, object, attribute, caller, value, refusal);
	return module_store_device(broker, object, caller, value, refusal);
}

/* As chown(2). */
static int store_owner(struct broker *broker, struct token token,
		       const struct caller *caller, const char *value)
{
	_cleanup_text_ struct text file = TEXT_INIT;
	uid_t uid;

	if (uid_parse(value, &uid) == 0)
		return broker_change(broker, OBJECT_ALLOCATION, token, caller, (mode_t)-1,
				     uid, (gid_t)-1);
	if (broker_path(broker, OBJECT_ALLOCATION, token, &file) < 0)
		return -ESTALE;
	text_printf(&file, "/owner");
	broker_fail(broker, caller, text_string(&file), EINVAL,
		    "owner takes the number of a user, not '%s'", value);
	return -EINVAL;
}

int broker_store(struct broker *broker, enum object_type type, struct token token,
		 const struct attribute *attribute, const struct caller *caller,
		 const char *value, size_t length)
{
	char word[256];
	struct full_name name = { "?" };
	struct refusal refusal;
	int r;

	if (length && value[length - 1] == '\n')
		length--;
	if (length >= sizeof(word) || memchr(value, 0, length))
		return object_fail(broker, caller, type, attribute->name, EINVAL,
				   "a value is one word of at most 255 characters");
	memcpy(word, value, length);
	word[length] = '\0';
	if (type == OBJECT_ALLOCATION && strcmp(attribute->name, "owner") == 0)
		return store_owner(broker, token, caller, word);
	pthread_mutex_lock(&broker->registry->lock);
	r = store_object(broker, type, token, attribute, caller, word, &name, &refusal);
	pthread_mutex_unlock(&broker->registry->lock);
	op_start(NULL); /* what a seal takes from guests */
	return r < 0 ? object_refuse(broker, caller, type, name.text, &refusal) : 0;
}

int broker_refuse_sealed(struct broker *broker, const struct caller *caller,
			 struct token token, const char *file)
{
	char path[FULL_NAME_MAX + 64];
	struct allocation *allocation;
	struct refusal refusal;

	pthread_mutex_lock(&broker->registry->lock);
	allocation = allocation_get(broker->registry, token.slot, token.generation);
	if (allocation) {
		(void)refuse_sealed(&refusal, allocation);
		snprintf(path, sizeof(path), "allocations/%s/%s",
			 allocation_name(allocation).text, file);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	if (!allocation)
		return -ESTALE;
	journal_fail(broker->journal, caller->uid, caller->pid, path, EPERM,
		     refusal.sentence);
	return -EPERM;
}

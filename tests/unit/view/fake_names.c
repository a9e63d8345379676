/* SPDX-License-Identifier: MIT */
/* Names and attributes of the broker in memory. */
#include "fake_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int broker_find(struct broker *broker, enum object_type type, struct token in,
		const char *name, const struct caller *caller,
		struct object_ref *ret_object)
{
	struct object *object;

	(void)in;
	(void)caller;
	pthread_mutex_lock(&broker->lock);
	object = fake_find(broker, type, name);
	if (object)
		*ret_object = (struct object_ref){
			type,
			{ object - broker->objects[type].slots, object->generation },
		};
	pthread_mutex_unlock(&broker->lock);
	return object ? 0 : -ENOENT;
}

bool broker_is_folder(struct broker *broker, enum object_type type, struct token token)
{
	(void)broker;
	(void)type;
	(void)token;
	return false;
}

struct object_ref broker_above(struct broker *broker, enum object_type type,
			       struct token token)
{
	(void)broker;
	(void)type;
	(void)token;
	return (struct object_ref){ OBJECT_BROKER, TOKEN_NONE };
}

void broker_look_up(struct broker *broker, enum object_type type, struct token in,
		    const char *name, struct completion *wait)
{
	(void)type;
	(void)in;
	(void)name;
	fake_answer(broker, wait, -ENOENT, NULL, 0);
}

int broker_path(struct broker *broker, enum object_type type, struct token token,
		struct text *text)
{
	struct object *object;

	pthread_mutex_lock(&broker->lock);
	object = fake_resolve(broker, type, token);
	if (object)
		text_printf(text, "%s/%s", object_folder(type), object->name);
	pthread_mutex_unlock(&broker->lock);
	return object ? 0 : -ESTALE;
}

size_t broker_list(struct broker *broker, enum object_type type, struct token in,
		   const struct caller *caller, uint64_t cookie, struct listing *entries,
		   size_t n)
{
	struct objects *objects = &broker->objects[type];
	size_t filled = 0;

	(void)in;
	(void)caller;
	pthread_mutex_lock(&broker->lock);
	for (size_t i = cookie; i < objects->n && filled < n; i++) {
		struct object *object = &objects->slots[i];

		if (!object->generation)
			continue;
		entries[filled].object =
			(struct object_ref){ type, { i, object->generation } };
		entries[filled].id = object->id;
		entries[filled].next = i + 1;
		memcpy(entries[filled++].name, object->name, sizeof(object->name));
	}
	pthread_mutex_unlock(&broker->lock);
	return filled;
}

int broker_stat(struct broker *broker, enum object_type type, struct token token,
		struct object_stat *ret_stat)
{
	struct object *object;

	pthread_mutex_lock(&broker->lock);
	object = fake_resolve(broker, type, token);
	if (object)
		*ret_stat = (struct object_stat){
			.id = object->id,
			.uid = object->uid,
			.gid = object->gid,
			.mode = object->mode,
			.size = object->size,
			.changed_s = object->changed_s,
			.host = object->name[0] == 'h',
			.managed = object->name[0] == 'm',
		};
	pthread_mutex_unlock(&broker->lock);
	return object ? 0 : -ESTALE;
}

int broker_show(struct broker *broker, enum object_type type, struct token token,
		const struct attribute *attribute, struct text *text)
{
	struct attribute_view view = { .type = type };
	int error = 0;

	pthread_mutex_lock(&broker->lock);
	view.object = type == OBJECT_BROKER ? NULL : fake_resolve(broker, type, token);
	if (type != OBJECT_BROKER && !view.object)
		error = -ESTALE;
	else if (attribute)
		attribute->show(&view, text);
	else
		text_printf(text, "status");
	text_printf(text, "\n");
	pthread_mutex_unlock(&broker->lock);
	return error;
}

int broker_store(struct broker *broker, enum object_type type, struct token token,
		 const struct attribute *attribute, const struct caller *caller,
		 const char *value, size_t length)
{
	struct object_stat stat;

	(void)attribute;
	(void)caller;
	return length && *value != '!' ? broker_stat(broker, type, token, &stat)
				       : -EINVAL;
}

int broker_create(struct broker *broker, enum object_type type, struct token in,
		  const char *name, mode_t mode, const struct caller *caller,
		  struct object_ref *ret_object)
{
	(void)in;
	(void)mode;
	if (type != OBJECT_STREAM) {
		broker_fail(broker, caller, object_folder(type), EPERM,
			    "see control/alloc");
		return -EPERM;
	}
	if (!broker_find(broker, type, TOKEN_NONE, name, caller, ret_object))
		return -EEXIST;
	pthread_mutex_lock(&broker->lock);
	fake_add(broker, type, name, caller, 0);
	pthread_mutex_unlock(&broker->lock);
	fake_wake_readers(broker);
	return broker_find(broker, type, TOKEN_NONE, name, caller, ret_object);
}

int broker_remove(struct broker *broker, enum object_type type, struct token in,
		  const char *name, const struct caller *caller)
{
	struct object *object;

	(void)in;
	(void)caller;
	pthread_mutex_lock(&broker->lock);
	object = fake_find(broker, type, name);
	if (object)
		fake_drop(object);
	fake_changed(broker, "remove", name);
	pthread_mutex_unlock(&broker->lock);
	fake_wake_readers(broker);
	return object ? 0 : -ENOENT;
}

int broker_rename(struct broker *broker, enum object_type type, struct name_in from,
		  struct name_in to, unsigned int flags, const struct caller *caller)
{
	struct object *object;
	int error = 0;

	(void)flags;
	(void)caller;
	pthread_mutex_lock(&broker->lock);
	object = fake_find(broker, type, from.name);
	if (!object)
		error = -ENOENT;
	else if (fake_find(broker, type, to.name))
		error = -EEXIST;
	else
		snprintf(object->name, sizeof(object->name), "%.64s", to.name);
	pthread_mutex_unlock(&broker->lock);
	return error;
}

int broker_change(struct broker *broker, enum object_type type, struct token token,
		  const struct caller *caller, mode_t mode, uid_t uid, gid_t gid)
{
	struct object *object;

	(void)caller;
	pthread_mutex_lock(&broker->lock);
	object = fake_resolve(broker, type, token);
	if (object) {
		object->mode = mode == (mode_t)-1 ? object->mode : mode;
		object->uid = uid == (uid_t)-1 ? object->uid : uid;
		object->gid = gid == (gid_t)-1 ? object->gid : gid;
	}
	pthread_mutex_unlock(&broker->lock);
	return object ? 0 : -ESTALE;
}

int broker_change_folder(struct broker *broker, enum object_type type, struct token token,
			 const struct caller *caller, mode_t mode, uid_t uid, gid_t gid)
{
	(void)broker;
	(void)type;
	(void)token;
	(void)caller;
	(void)mode;
	(void)uid;
	(void)gid;
	return -ESTALE;
}

void broker_ask(struct broker *broker, struct token token,
		const struct attribute *attribute, const struct caller *caller,
		struct completion *wait)
{
	(void)token;
	(void)attribute;
	(void)caller;
	fake_answer(broker, wait, 0, strdup("answered\n"), 9);
}

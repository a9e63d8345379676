/* SPDX-License-Identifier: MIT */
/*
 * Objects in the view's namespace: found, listed, shown, and changed by mkdir, mv, rmdir,
 * chmod.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "api/broker.h"
#include "api/folders.h"
#include "api/limits.h"
#include "api/object_fail.h"
#include "api/object_stat.h"
#include "base/clock.h"
#include "base/handle_table.h"
#include "base/hash.h"
#include "base/number.h"
#include "base/refusal.h"
#include "control/line.h"
#include "kernels/module_use.h"
#include "memops/release.h"
#include "model/allocation.h"
#include "model/journal.h"
#include "model/module.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"
#include "model/stream.h"
#include "model/tensors.h"
#include "process/broker.h"
#include "process/worker.h"

int object_fail(struct broker *broker, const struct caller *caller, enum object_type type,
		const char *name, int error, const char *sentence)
{
	char file[FULL_NAME_MAX + 64];

	snprintf(file, sizeof(file), "%s/%s", object_folder(type), name);
	journal_fail(broker->journal, caller->uid, caller->pid, file, error, sentence);
	return -error;
}

int object_refuse(struct broker *broker, const struct caller *caller,
		  enum object_type type, const char *name, const struct refusal *refusal)
{
	return object_fail(broker, caller, type, name, refusal->error, refusal->sentence);
}

/* ---- finding; all under registry.lock ---- */

static bool find_stream(struct broker *broker, const char *name,
			const struct caller *caller, struct token *ret_token)
{
	struct stream *stream = stream_find(broker->registry, name);

	if (!stream)
		stream = stream_find_default(broker->registry, name, caller);
	if (!stream)
		return false;
	*ret_token = (struct token){ stream->slot, stream->slot_generation };
	return true;
}

static bool find_device(struct broker *broker, const char *name,
			const struct caller *caller, struct token *ret_token)
{
	uint64_t index;
	char plain[24];

	(void)caller;
	if (number_parse(name, &index) < 0 || index >= broker->registry->n_devices)
		return false;
	snprintf(plain, sizeof(plain), "%llu", (unsigned long long)index);
	if (strcmp(plain, name) != 0)
		return false;
	*ret_token =
		(struct token){ broker->registry->device_at[index]->slot,
				broker->registry->device_at[index]->slot_generation };
	return true;
}

static bool find_owner(struct broker *broker, const char *name,
		       const struct caller *caller, struct token *ret_token)
{
	struct owner *owner;
	uid_t uid;

	(void)caller;
	owner = uid_parse(name, &uid) == 0 ? owner_find(broker->registry, uid) : NULL;
	if (!owner)
		return false;
	*ret_token = (struct token){ owner->slot, owner->slot_generation };
	return true;
}

/* Returns: 0; -ENOENT; -EAGAIN. */
static int find_function(struct broker *broker, struct token in, const char *name,
			 struct token *ret_token)
{
	const struct module *module = module_get(broker->registry, in);
	const struct function *function;

	if (!module || !module->image)
		return -ENOENT;
	function = image_find_function(module->image, name);
	if (!function)
		return module->image->enumerated ? -ENOENT : -EAGAIN;
	*ret_token = (struct token){ function->slot, function->slot_generation };
	return 0;
}

int broker_find(struct broker *broker, enum object_type type, struct token in,
		const char *name, const struct caller *caller,
		struct object_ref *ret_object)
{
	static bool (*const finders[N_OBJECT_TYPES])(
		struct broker *, const char *, const struct caller *, struct token *) = {
		[OBJECT_STREAM] = find_stream,
		[OBJECT_DEVICE] = find_device,
		[OBJECT_OWNER] = find_owner,
	};
	int r;

	ret_object->type = type;
	pthread_mutex_lock(&broker->registry->lock);
	if (type == OBJECT_FUNCTION)
		r = find_function(broker, in, name, &ret_object->token);
	else if (type == OBJECT_ALLOCATION || type == OBJECT_MODULE)
		r = folder_look_up(broker->registry, type, in, name, ret_object);
	else
		r = finders[type] && finders[type](broker, name, caller,
						   &ret_object->token)
			    ? 0
			    : -ENOENT;
	pthread_mutex_unlock(&broker->registry->lock);
	return r;
}

void broker_look_up(struct broker *broker, enum object_type type, struct token in,
		    const char *name, struct completion *wait)
{
	if (type == OBJECT_FUNCTION) {
		module_look_up(broker, in, name, wait);
		return;
	}
	wait->done(wait, -ENOENT, NULL, 0);
}

int broker_path(struct broker *broker, enum object_type type, struct token token,
		struct text *text)
{
	bool found;

	pthread_mutex_lock(&broker->registry->lock);
	found = object_path(broker->registry, type, token, text);
	pthread_mutex_unlock(&broker->registry->lock);
	return found ? 0 : -ESTALE;
}

/* ---- status and contents ---- */

static void stat_allocation(const struct allocation *allocation, struct object_stat *stat)
{
	const int64_t used_ns = allocation_last_used(allocation);

	*stat = (struct object_stat){
		.id = allocation->id,
		.uid = allocation->owner->uid,
		.gid = allocation->gid,
		.mode = allocation->mode,
		.size = allocation->size,
		.tensors_size =
			allocation->rare->tensors ? allocation->rare->tensors->size : 0,
		.changed_s = allocation->written_ns / NS_PER_S ?: allocation->created_s,
		.changed_ns = (uint32_t)(allocation->written_ns % NS_PER_S),
		.created_s = allocation->created_s,
		.used_s = used_ns / NS_PER_S ?: allocation->created_s,
		.used_ns = (uint32_t)(used_ns % NS_PER_S),
		.host = allocation->kind == KIND_HOST,
		.sealed = allocation->sealed,
		.managed = allocation->managed,
	};
}

static void stat_stream(const struct stream *stream, struct object_stat *stat)
{
	*stat = (struct object_stat){
		.id = stream->id,
		.uid = stream->owner->uid,
		.gid = stream->owner->gid,
		.mode = 0644,
		.changed_s = stream->created_s,
		.created_s = stream->created_s,
	};
}

static void stat_module(const struct module *module, struct object_stat *stat)
{
	*stat = (struct object_stat){
		.id = module->id,
		.uid = module->owner->uid,
		.gid = module->gid,
		.mode = module->mode,
		.size = module->image ? module->image->size : 0,
		.changed_s = module->loaded_s ?: module->created_s,
		.created_s = module->created_s,
	};
}

static void stat_folder(const struct folder *folder, struct object_stat *stat)
{
	*stat = (struct object_stat){
		.id = folder->id,
		.uid = folder->owner->uid,
		.gid = folder->gid,
		.mode = folder->mode,
		.folder = true,
		.changed_s = folder->changed_s,
		.changed_ns = folder->changed_ns,
	};
}

static void stat_function(const struct function *function, struct object_stat *stat)
{
	stat_module(function->image->module, stat);
	stat->id = function->id;
	stat->size = 0;
}

static void stat_owner(const struct owner *owner, struct object_stat *stat)
{
	*stat = (struct object_stat){
		.id = owner->uid + (uint64_t)1,
		.uid = owner->uid,
		.gid = owner->gid == GROUP_UNKNOWN ? 0 : owner->gid,
		.mode = 0644,
	};
}

int object_stat_held(struct registry *registry, enum object_type type, struct token token,
		     struct object_stat *ret_stat)
{
	const struct folder *folder;
	const void *object;

	if (!object_slots(registry, type)) {
		*ret_stat = (struct object_stat){ .mode = 0444 };
		return 0;
	}
	object = object_get(registry, type, token);
	folder = folder_get(registry, type, token);
	if (folder)
		stat_folder(folder, ret_stat);
	else if (!object)
		return -ESTALE;
	else if (type == OBJECT_MODULE)
		stat_module(object, ret_stat);
	else if (type == OBJECT_FUNCTION)
		stat_function(object, ret_stat);
	else if (type == OBJECT_ALLOCATION)
		stat_allocation(object, ret_stat);
	else if (type == OBJECT_STREAM)
		stat_stream(object, ret_stat);
	else if (type == OBJECT_DEVICE)
		*ret_stat = (struct object_stat){
			.id = ((const struct device *)object)->index + 1u,
			.mode = 0444,
		};
	else
		stat_owner(object, ret_stat);
	return 0;
}

int broker_stat(struct broker *broker, enum object_type type, struct token token,
		struct object_stat *ret_stat)
{
	int r;

	pthread_mutex_lock(&broker->registry->lock);
	r = object_stat_held(broker->registry, type, token, ret_stat);
	pthread_mutex_unlock(&broker->registry->lock);
	return r;
}

/* ---- making ---- */

/* Under registry.lock. */
static int create_stream(struct broker *broker, const char *name,
			 const struct caller *caller, struct owner *owner,
			 struct token *ret_token, struct refusal *refusal)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	struct stream *stream = NULL;
	int r = -EEXIST;

	if (stream_name_is_default(name) &&
	    !stream_find_default(broker->registry, name, caller))
		return refuse(refusal, EINVAL,
			      "stream %s can't be made: such names belong to the streams "
			      "that each device has",
			      name);
	if (!stream_name_is_default(name))
		r = stream_new(&stream, broker->registry, name, owner, 0, false);
	if (r == 0) {
		*ret_token = (struct token){ stream->slot, stream->slot_generation };
		journal_event_by(broker->journal, caller, "create streams/%s", name);
	} else if (r == -EEXIST) {
		refuse(refusal, EEXIST, "stream %s is there already", name);
	} else if (r == -EDQUOT) {
		share_explain(owner, &why);
		refuse(refusal, EDQUOT, "%s", text_string(&why));
	} else if (r == -ENFILE) {
		refuse(refusal, ENFILE, "uid %u has as many streams as a user may have",
		       caller->uid);
	} else {
		refuse(refusal, -r, "stream %s: %s", name, strerror(-r));
	}
	return r;
}

int broker_create(struct broker *broker, enum object_type type, struct token in,
		  const char *name, mode_t mode, const struct caller *caller,
		  struct object_ref *ret_object)
{
	static const char *const words[N_OBJECT_TYPES] = {
		[OBJECT_ALLOCATION] = "folder",
		[OBJECT_MODULE] = "module",
		[OBJECT_STREAM] = "stream",
	};
	struct full_name full;
	struct refusal refusal;
	struct owner *owner;
	int r;

	if (type == OBJECT_OWNER) {
		ret_object->type = type;
		return limits_create_owner(broker, name, caller, &ret_object->token);
	}
	if (!words[type])
		return object_fail(broker, caller, type, name, EPERM,
				   "devices and functions are not made by hand");
	if (line_name(name, words[type], &refusal) < 0)
		return object_refuse(broker, caller, type, name, &refusal);
	ret_object->type = type;

	pthread_mutex_lock(&broker->registry->lock);
	full = folder_name_in(broker->registry, type, (struct name_in){ in, name });
	owner = owner_get(broker->registry, caller->uid, caller->gid);
	if (broker->registry->shutting_down)
		r = refuse(&refusal, ESTALE, "the broker is shutting down");
	else if (!owner)
		r = refuse(&refusal, ENOMEM, "no memory in the broker");
	else if (type == OBJECT_STREAM)
		r = create_stream(broker, name, caller, owner, &ret_object->token,
				  &refusal);
	else
		r = folder_make_name(broker, type, (struct name_in){ in, name }, mode,
				     caller, owner, ret_object, &refusal);
	pthread_mutex_unlock(&broker->registry->lock);
	return r < 0 ? object_refuse(broker, caller, type, full.text, &refusal) : 0;
}

/* ---- removing ---- */

/* With the lock held; releases the lock. Returns: 0, or a refusal. */
static int remove_stream(struct broker *broker, const char *name,
			 const struct caller *caller, struct refusal *refusal)
{
	struct stream *stream = stream_find(broker->registry, name);
	int r = 0;

	if (!stream && stream_find_default(broker->registry, name, caller))
		r = refuse(refusal, EPERM, "stream %s is always there", name);
	else if (!stream)
		r = refuse(refusal, ENOENT, "there is no stream %s", name);
	else if (caller->uid != 0 && caller->uid != stream->owner->uid)
		r = refuse(refusal, EPERM, "stream %s belongs to uid %u, not to uid %u",
			   name, stream->owner->uid, caller->uid);
	else if (stream->n_works)
		r = refuse(refusal, EBUSY, "stream %s has %u commands under way", name,
			   stream->n_works);
	else if (stream->n_allocations)
		r = refuse(refusal, EBUSY,
			   "%u allocations were made on stream %s or are attached to it",
			   stream->n_allocations, name);
	if (r == 0) {
		struct worker *worker = stream->owner->worker;

		journal_event_by(broker->journal, caller, "remove streams/%s", name);
		/* Announced before the number can be reused. */
		if (worker)
			worker_drop_stream(worker, stream);
		stream_free(broker->registry, stream);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	return r;
}

int broker_remove(struct broker *broker, enum object_type type, struct token in,
		  const char *name, const struct caller *caller)
{
	struct full_name full;
	struct refusal refusal;
	int r;

	if (type != OBJECT_STREAM && type != OBJECT_ALLOCATION && type != OBJECT_MODULE)
		return object_fail(
			broker, caller, type, name, EPERM,
			"devices, owners and functions are not removed by hand; "
			"`echo default >owners/UID/max` takes an owner's limits away");
	pthread_mutex_lock(&broker->registry->lock);
	full = folder_name_in(broker->registry, type, (struct name_in){ in, name });
	if (type == OBJECT_STREAM)
		r = remove_stream(broker, name, caller, &refusal);
	else
		r = folder_remove_name(broker, type, (struct name_in){ in, name }, caller,
				       &refusal);
	return r < 0 ? object_refuse(broker, caller, type, full.text, &refusal) : 0;
}

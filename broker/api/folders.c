/* SPDX-License-Identifier: MIT */
/*
 * mkdir, rmdir, mv and chmod in the folders of allocations and of modules.
 *
 * The kernel has checked that the caller may write and search the folder. Here is checked
 * that the thing itself is the caller's: nobody frees, renames or moves what belongs to
 * another, as in a directory with the sticky bit.
 */
#include "api/folders.h"

#include <errno.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "api/object_fail.h"
#include "base/refusal.h"
#include "base/text.h"
#include "control/line.h"
#include "kernels/module_use.h"
#include "memops/lease.h"
#include "memops/release.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/folder.h"
#include "model/journal.h"
#include "model/module.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/save.h"
#include "model/shares.h"
#include "process/broker.h"
#include "record/records.h"

struct folder *folder_in(struct registry *registry, enum object_type type,
			 struct token in)
{
	if (in.generation)
		return folder_get(registry,
				  type == OBJECT_MODULE ? OBJECT_MODULE : OBJECT_FOLDER,
				  in);
	return type == OBJECT_MODULE ? &registry->module_root
				     : &registry->allocation_root;
}

/* The entry of a name; NULL: free, or of an allocation that is being made. */
static struct entry *find_visible(const struct folder *folder, const char *name)
{
	struct entry *entry = folder ? folder_find(folder, name) : NULL;
	const struct allocation *allocation = allocation_of(entry);

	return allocation && allocation->state == ALLOCATION_MAKING ? NULL : entry;
}

struct full_name folder_name_in(struct registry *registry, enum object_type type,
				struct name_in at)
{
	const struct folder *folder = folder_in(registry, type, at.in);
	const struct module *module =
		folder || type != OBJECT_MODULE ? NULL : module_get(registry, at.in);
	struct full_name above = { "" }, name;

	if (folder && folder->entry.folder)
		above = entry_name(&folder->entry);
	else if (module)
		above = module_name(module);
	(void)snprintf(name.text, sizeof(name.text), "%.520s%s%.63s", above.text,
		       *above.text ? "/" : "", at.name);
	return name;
}

int folder_look_up(struct registry *registry, enum object_type type, struct token in,
		   const char *name, struct object_ref *ret_object)
{
	struct entry *entry = find_visible(folder_in(registry, type, in), name);

	if (!entry)
		return -ENOENT;
	*ret_object = entry_ref(entry);
	return 0;
}

bool broker_is_folder(struct broker *broker, enum object_type type, struct token token)
{
	bool is;

	pthread_mutex_lock(&broker->registry->lock);
	is = folder_get(broker->registry, type, token) != NULL;
	pthread_mutex_unlock(&broker->registry->lock);
	return is;
}

/* The entry of an object that is in a folder. NULL: another type, or it is gone. */
static struct entry *entry_of(struct registry *registry, enum object_type type,
			      struct token token)
{
	struct folder *folder = folder_get(registry, type, token);
	void *object = object_get(registry, type, token);

	if (folder)
		return &folder->entry;
	if (object && type == OBJECT_ALLOCATION)
		return &((struct allocation *)object)->entry;
	if (object && type == OBJECT_MODULE)
		return &((struct module *)object)->entry;
	return NULL;
}

struct object_ref broker_above(struct broker *broker, enum object_type type,
			       struct token token)
{
	struct object_ref above = { OBJECT_BROKER, TOKEN_NONE };
	const struct entry *entry;

	pthread_mutex_lock(&broker->registry->lock);
	entry = entry_of(broker->registry, type, token);
	if (entry && entry->folder && entry->folder->entry.folder)
		above = folder_ref(entry->folder);
	pthread_mutex_unlock(&broker->registry->lock);
	return above;
}

/* ---- rights ---- */

static const struct owner *entry_owner(struct entry *entry)
{
	const struct allocation *allocation = allocation_of(entry);
	const struct module *module = module_of(entry);

	if (allocation)
		return allocation->owner;
	return module ? module->owner : entry_folder(entry)->owner;
}

/* What an entry is, for sentences. */
static const char *entry_word(const struct entry *entry)
{
	if (entry->type == OBJECT_FOLDER)
		return "folder";
	return entry->type == OBJECT_MODULE ? "module" : "allocation";
}

static int check_owner(struct entry *entry, const struct caller *caller,
		       struct refusal *refusal)
{
	const struct owner *owner = entry_owner(entry);

	if (caller->uid == 0 || caller->uid == owner->uid)
		return 0;
	return refuse(refusal, EPERM, "%s %s belongs to uid %u, not to uid %u",
		      entry_word(entry), entry_name(entry).text, owner->uid, caller->uid);
}

/* ---- making ---- */

static int refuse_folder(int error, struct owner *owner, struct refusal *refusal)
{
	_cleanup_text_ struct text share = TEXT_INIT;

	if (error == -ENAMETOOLONG)
		return refuse(refusal, ENAMETOOLONG,
			      "folders are at most %d deep: this one would be deeper",
			      FOLDER_DEPTH_MAX);
	if (error != -EDQUOT)
		return refuse(refusal, -error, "no memory in the broker");
	share_explain(owner, &share);
	return refuse(refusal, EDQUOT, "%s", text_string(&share));
}

/* Whether a module can become a folder: nothing was written to it. */
static int check_module(struct module *module, const struct caller *caller,
			struct refusal *refusal)
{
	int r = check_owner(&module->entry, caller, refusal);

	if (r < 0)
		return r;
	if (!module_is_fresh(module) || module->n_serials)
		return refuse(
			refusal, EPERM,
			"%s is a module, with an image: a folder of modules is made "
			"with mkdir, and has none",
			module_name(module).text);
	return 0;
}

/* The module becomes a folder, with room for a name. */
static int open_module(struct broker *broker, struct module *module,
		       struct folder **ret_folder, struct refusal *refusal)
{
	int r = folder_from_module(ret_folder, broker->registry, module);

	return r < 0 ? refuse_folder(r, module->owner, refusal) : 0;
}

static void note_opened(struct broker *broker, const struct folder *folder,
			const struct caller *caller)
{
	journal_event_by(broker->journal, caller, "mkdir modules/%s",
			 entry_name(&folder->entry).text);
}

/* The folder in which a name is to be made, or the module that is to become one. */
static int find_folder(struct broker *broker, enum object_type type, struct token in,
		       const struct caller *caller, struct folder **ret_folder,
		       struct module **ret_module, struct refusal *refusal)
{
	*ret_module = NULL;
	*ret_folder = folder_in(broker->registry, type, in);
	if (*ret_folder)
		return 0;
	if (type == OBJECT_MODULE)
		*ret_module = module_get(broker->registry, in);
	if (!*ret_module)
		return refuse(refusal, ESTALE, "the folder has been removed");
	return check_module(*ret_module, caller, refusal);
}

/* A module in a folder, or in a module that becomes one. */
static int make_module(struct broker *broker, struct name_in at, mode_t mode,
		       const struct caller *caller, struct owner *owner,
		       struct token *ret_token, struct refusal *refusal)
{
	struct module *above;
	struct folder *in;
	int r;

	r = find_folder(broker, OBJECT_MODULE, at.in, caller, &in, &above, refusal);
	if (r == 0 && above)
		r = open_module(broker, above, &in, refusal);
	if (r < 0)
		return r;
	r = module_create(broker, in, at.name, owner, mode, ret_token, refusal);
	if (r < 0 && above)
		folder_to_module(broker->registry, in);
	if (r < 0)
		return r;
	if (above)
		note_opened(broker, in, caller);
	journal_event_by(broker->journal, caller, "create modules/%s",
			 folder_name_in(broker->registry, OBJECT_MODULE, at).text);
	return 0;
}

int folder_make_name(struct broker *broker, enum object_type type, struct name_in at,
		     mode_t mode, const struct caller *caller, struct owner *owner,
		     struct object_ref *ret_object, struct refusal *refusal)
{
	struct folder *in, *folder;
	int r;

	if (type == OBJECT_MODULE)
		return make_module(broker, at, mode, caller, owner, &ret_object->token,
				   refusal);
	in = folder_in(broker->registry, type, at.in);
	if (!in)
		return refuse(refusal, ESTALE, "the folder has been removed");
	r = folder_new(&folder, broker->registry, in, at.name, owner);
	if (r == -EEXIST)
		return refuse(refusal, EEXIST, "%s is there already", at.name);
	if (r < 0)
		return refuse_folder(r, owner, refusal);
	folder->gid = caller->gid;
	folder->mode = (uint16_t)(mode & 0777);
	folder_save(folder);
	*ret_object = folder_ref(folder);
	journal_event_by(broker->journal, caller, "mkdir allocations/%s",
			 entry_name(&folder->entry).text);
	return 0;
}

/* ---- removing ---- */

static int folder_remove(struct broker *broker, struct folder *folder,
			 const struct caller *caller, struct refusal *refusal)
{
	unsigned int n = folder->names.n_names;

	if (n)
		return refuse(refusal, ENOTEMPTY, "folder %s is not empty: %u name%s",
			      entry_name(&folder->entry).text, n,
			      n == 1 ? " is in it" : "s are in it");
	journal_event_by(broker->journal, caller, "rmdir %s/%s",
			 object_folder(folder->holds), entry_name(&folder->entry).text);
	folder_free(broker->registry, folder);
	return 0;
}

int folder_remove_name(struct broker *broker, enum object_type type, struct name_in at,
		       const struct caller *caller, struct refusal *refusal)
{
	struct registry *registry = broker->registry;
	struct entry *entry = find_visible(folder_in(registry, type, at.in), at.name);
	int r;

	if (!entry)
		r = refuse(refusal, ENOENT, "there is no %s", at.name);
	else
		r = check_owner(entry, caller, refusal);
	if (r == 0 && allocation_of(entry)) {
		allocation_release_by(broker, allocation_of(entry), caller);
		return 0;
	}
	if (r == 0 && module_of(entry))
		return module_remove(broker, module_of(entry), caller, refusal);
	if (r == 0)
		r = folder_remove(broker, entry_folder(entry), caller, refusal);
	pthread_mutex_unlock(&registry->lock);
	return r;
}

/* ---- renaming ---- */

enum rename_place {
	NEW,
	OLD,
};

/* A rename being checked. */
struct rename {
	struct broker *broker;
	const struct caller *caller;
	struct entry *entry;
	struct name_place places[2]; /* enum rename_place */
	struct entry *there;	     /* has the new name; NULL: it is free */
	unsigned int flags;
};

/*
 * Whether an entry can be in a folder by its depth, and is not above it; in a module of
 * that folder, where n_more is 1.
 */
static int check_fit(struct entry *entry, const struct folder *in, unsigned int n_more,
		     struct refusal *refusal)
{
	const struct folder *folder = entry_folder(entry);

	if (!folder)
		return 0;
	if (folder_is_below(in, entry))
		return refuse(refusal, EINVAL, "folder %s can't be put into itself",
			      entry_name(entry).text);
	if (!folder_fits(folder, folder_depth(in) + n_more))
		return refuse_folder(-ENAMETOOLONG, folder->owner, refusal);
	return 0;
}

/* Whether the entry that has the new name may be replaced, or may get the old name. */
static int check_there(struct rename *rename, struct refusal *refusal)
{
	struct entry *there = rename->there;
	const struct folder *folder = entry_folder(there);
	bool exchange = rename->flags & RENAME_EXCHANGE;
	int r;

	if (!there)
		return exchange ? refuse(refusal, ENOENT, "there is no %s",
					 rename->places[NEW].name)
				: 0;
	if (!exchange && (!folder || rename->flags & RENAME_NOREPLACE))
		return refuse(refusal, EEXIST, "%s %s is there already",
			      entry_word(there), entry_name(there).text);
	if (!exchange && folder->names.n_names)
		return refuse(refusal, ENOTEMPTY, "folder %s is there, and is not empty",
			      entry_name(there).text);
	r = check_owner(there, rename->caller, refusal);
	if (r == 0 && exchange)
		r = check_fit(there, rename->entry->folder, 0, refusal);
	return r;
}

/* The old place is for the entry that has the new name. Returns: 0; -ENOMEM. */
static int rename_reserve(struct rename *rename)
{
	struct name_place *places = rename->places;
	int r;

	places[OLD].folder = rename->entry->folder;
	places[OLD].name = rename->entry->name;
	r = name_place_reserve(&places[OLD], 1);
	return r < 0 ? r : name_place_reserve(&places[NEW], 1);
}

static void rename_deinit(struct rename *rename)
{
	name_place_deinit(&rename->places[NEW]);
	name_place_deinit(&rename->places[OLD]);
}

/*
 * Checks a rename that is to end in the folder `in`. A rename into an empty module makes
 * a folder of the module; nothing else is changed.
 */
static int rename_check(struct rename *rename, enum object_type type, struct token in,
			struct refusal *refusal)
{
	struct broker *broker = rename->broker;
	const char *name = rename->places[NEW].name;
	struct module *module = NULL; /* is to be made a folder, the last thing of all */
	int r = check_owner(rename->entry, rename->caller, refusal);

	if (r == 0)
		r = line_name(name, entry_word(rename->entry), refusal);
	if (r == 0)
		r = find_folder(broker, type, in, rename->caller,
				&rename->places[NEW].folder, &module, refusal);
	if (r == 0 && module)
		r = check_fit(rename->entry, module->entry.folder, 1, refusal);
	else if (r == 0)
		r = check_fit(rename->entry, rename->places[NEW].folder, 0, refusal);
	if (r < 0)
		return r;
	rename->there = module ? NULL : folder_find(rename->places[NEW].folder, name);
	if (rename->there == rename->entry)
		return 0;
	r = check_there(rename, refusal);
	if (r == 0 && rename_reserve(rename) < 0)
		r = refuse(refusal, ENOMEM, "no memory in the broker");
	if (r < 0 || !module)
		return r;
	r = open_module(broker, module, &rename->places[NEW].folder, refusal);
	if (r == 0)
		note_opened(broker, rename->places[NEW].folder, rename->caller);
	return r;
}

static void note_renamed(struct rename *rename, struct entry *entry,
			 const char *folder_name, struct full_name from)
{
	struct folder *folder = entry_folder(entry);
	struct broker *broker = rename->broker;

	if (allocation_of(entry))
		leases_note_changed(broker, allocation_of(entry));
	else if (folder && folder->holds == OBJECT_ALLOCATION && folder->names.n_names)
		leases_note_renamed(broker, folder);
	journal_event_by(broker->journal, rename->caller, "rename %s/%s from=%s",
			 folder_name, entry_name(entry).text, from.text);
}

static void rename_do(struct rename *rename)
{
	struct entry *entries[] = { rename->entry, rename->there };
	struct full_name from = entry_name(rename->entry);
	const char *folder = object_folder(rename->places[NEW].folder->holds);
	bool exchange = rename->flags & RENAME_EXCHANGE;

	if (rename->there == rename->entry)
		return;
	if (rename->there && !exchange)
		folder_free(rename->broker->registry, entry_folder(rename->there));
	entries_move(entries, rename->places, exchange ? 2 : 1);
	note_renamed(rename, rename->entry, folder, from);
	if (exchange)
		note_renamed(rename, rename->there, folder, entry_name(rename->entry));
}

int broker_rename(struct broker *broker, enum object_type type, struct name_in from,
		  struct name_in to, unsigned int flags, const struct caller *caller)
{
	struct registry *registry = broker->registry;
	_cleanup_(rename_deinit) struct rename rename = {
		.broker = broker,
		.caller = caller,
		.places[NEW].name = to.name,
		.flags = flags,
	};
	struct full_name name;
	struct refusal refusal;
	int r;

	if (type != OBJECT_ALLOCATION && type != OBJECT_MODULE)
		return object_fail(
			broker, caller, type, from.name, EPERM,
			"only allocations, modules and folders can be renamed");
	if (flags & ~(unsigned int)(RENAME_NOREPLACE | RENAME_EXCHANGE))
		return object_fail(broker, caller, type, from.name, EINVAL,
				   "RENAME_NOREPLACE and RENAME_EXCHANGE are known");
	pthread_mutex_lock(&registry->lock);
	name = folder_name_in(registry, type, from);
	rename.entry = find_visible(folder_in(registry, type, from.in), from.name);
	if (rename.entry)
		r = rename_check(&rename, type, to.in, &refusal);
	else
		r = refuse(&refusal, ENOENT, "there is no %s", from.name);
	if (r == 0)
		rename_do(&rename);
	pthread_mutex_unlock(&registry->lock);
	return r < 0 ? object_refuse(broker, caller, type, name.text, &refusal) : 0;
}

/* ---- chmod, chgrp, chown ---- */

/* All of it or nothing, for the next broker, too. Returns: 0; -EDQUOT. */
static int folder_set_rights(struct folder *folder, struct owner *owner, mode_t mode,
			     gid_t gid)
{
	int r = 0;

	records_begin(folder->records);
	if (owner != folder->owner)
		r = folder_set_owner(folder, owner);
	if (r == 0) {
		if (mode != (mode_t)-1)
			folder->mode = (uint16_t)(mode & 0777);
		if (gid != (gid_t)-1)
			folder->gid = gid;
		folder_save(folder);
	}
	records_end(folder->records);
	return r;
}

/* Under registry.lock. Returns: 0; -EPERM, -EDQUOT, -ENOMEM with a refusal. */
static int change_folder(struct broker *broker, struct folder *folder,
			 const struct caller *caller, mode_t mode, uid_t uid, gid_t gid,
			 struct refusal *refusal)
{
	struct owner *owner = folder->owner;
	int r = check_owner(&folder->entry, caller, refusal);

	if (r < 0)
		return r;
	if (uid != (uid_t)-1 && uid != owner->uid) {
		if (caller->uid != 0)
			return refuse(refusal, EPERM, "only root gives a folder away");
		owner = owner_make(broker->registry, uid);
		if (!owner)
			return refuse(refusal, ENOMEM, "no memory in the broker");
	}
	r = folder_set_rights(folder, owner, mode, gid);
	if (r < 0)
		return refuse_folder(r, owner, refusal);
	journal_event_by(broker->journal, caller,
			 "change %s/%s mode=%04o owner=%u gid=%u",
			 object_folder(folder->holds), entry_name(&folder->entry).text,
			 folder->mode, folder->owner->uid, folder->gid);
	return 0;
}

int broker_change_folder(struct broker *broker, enum object_type type, struct token token,
			 const struct caller *caller, mode_t mode, uid_t uid, gid_t gid)
{
	struct full_name name = { "" };
	struct refusal refusal;
	struct folder *folder;
	int r = -ESTALE;

	pthread_mutex_lock(&broker->registry->lock);
	folder = folder_get(broker->registry, type, token);
	if (folder) {
		name = entry_name(&folder->entry);
		type = folder->holds;
		r = change_folder(broker, folder, caller, mode, uid, gid, &refusal);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	return r < 0 && folder ? object_refuse(broker, caller, type, name.text, &refusal)
			       : r;
}

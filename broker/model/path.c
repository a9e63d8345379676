/* SPDX-License-Identifier: MIT */
/* Names in lines, which pass folders as the kernel would let the caller pass. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/refusal.h"
#include "model/access.h"
#include "model/folder.h"
#include "model/owner.h"
#include "model/registry.h"

/* The singular of what a tree of names holds. */
static const char *thing(enum object_type type)
{
	return type == OBJECT_MODULE ? "module" : "allocation";
}

bool folder_may(const struct folder *folder, const struct caller *caller,
		unsigned int access)
{
	unsigned int mode = folder->mode;

	if (caller->uid == 0)
		return true;
	if (folder->owner && caller->uid == folder->owner->uid)
		mode >>= 6;
	else if (caller_in_group(caller, folder->gid))
		mode >>= 3;
	return (mode & access) == access;
}

int folder_check(const struct folder *folder, const struct caller *caller,
		 unsigned int access, struct refusal *refusal)
{
	if (folder_may(folder, caller, access))
		return 0;
	return refuse(refusal, EACCES, "uid %u may not %s folder %s of uid %u, mode %04o",
		      caller->uid,
		      folder_may(folder, caller, FOLDER_SEARCH) ? "change the names in"
								: "search",
		      entry_name(&folder->entry).text,
		      folder->owner ? folder->owner->uid : 0, folder->mode);
}

/* There is no folder of the first n bytes of the path: nothing, or no folder. */
static int refuse_step(struct refusal *refusal, enum object_type holds,
		       const struct entry *entry, const char *path, size_t n)
{
	if (entry)
		return refuse(refusal, ENOTDIR, "%.*s is %s, not a folder", (int)n, path,
			      holds == OBJECT_MODULE ? "a module" : "an allocation");
	return refuse(refusal, ENOENT, "there is no folder %.*s: mkdir %s/%.*s makes it",
		      (int)n, path, object_folder(holds), (int)n, path);
}

int path_resolve(struct registry *registry, enum object_type holds, const char *path,
		 const struct caller *caller, struct name_place *ret_place,
		 struct refusal *refusal)
{
	struct folder *folder = holds == OBJECT_MODULE ? &registry->module_root
						       : &registry->allocation_root;
	const char *name = path, *slash;
	char part[OBJECT_NAME_MAX + 1];
	int r;

	while ((slash = strchr(name, '/'))) {
		struct entry *entry;

		/* Cut off, a longer name could be another folder's. */
		snprintf(part, sizeof(part), "%.*s", (int)(slash - name), name);
		entry = slash - name <= OBJECT_NAME_MAX ? folder_find(folder, part)
							: NULL;
		if (!entry_folder(entry))
			return refuse_step(refusal, holds, entry, path,
					   (size_t)(slash - path));
		folder = entry_folder(entry);
		r = folder_check(folder, caller, FOLDER_SEARCH, refusal);
		if (r < 0)
			return r;
		name = slash + 1;
	}
	*ret_place = (struct name_place){ .folder = folder, .name = name };
	return 0;
}

int refuse_absent(struct refusal *refusal, enum object_type type,
		  const struct entry *entry, const char *path)
{
	if (entry)
		return refuse(refusal, EISDIR,
			      "%s is a folder: %s/NAME names what it has", path, path);
	return refuse(refusal, ENOENT, "there is no %s %s", thing(type), path);
}

struct entry *path_find(struct registry *registry, enum object_type type,
			const char *path, const struct caller *caller,
			struct refusal *refusal)
{
	struct name_place place;
	struct entry *entry;

	if (path_resolve(registry, type, path, caller, &place, refusal) < 0)
		return NULL;
	entry = folder_find(place.folder, place.name);
	if (entry && entry->type == type)
		return entry;
	(void)refuse_absent(refusal, type, entry, path);
	return NULL;
}

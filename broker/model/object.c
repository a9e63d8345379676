/* SPDX-License-Identifier: MIT */
#include "model/object.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "model/folder.h"
#include "model/module.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/stream.h"

static const char *const folders[N_OBJECT_TYPES] = {
	[OBJECT_BROKER] = "",
	[OBJECT_ALLOCATION] = "allocations",
	[OBJECT_STREAM] = "streams",
	[OBJECT_DEVICE] = "devices",
	[OBJECT_OWNER] = "owners",
	[OBJECT_MODULE] = "modules",
	[OBJECT_FUNCTION] = "functions",
	[OBJECT_FOLDER] = "folders",
};

const char *object_folder(enum object_type type)
{
	return folders[type];
}

int name_check(const char *name)
{
	size_t length = strlen(name);

	if (length > OBJECT_NAME_MAX)
		return -ENAMETOOLONG;
	if (length == 0 || !(isalnum((unsigned char)name[0]) || name[0] == '_'))
		return -EINVAL;
	for (size_t i = 1; i < length; i++) {
		if (!isalnum((unsigned char)name[i]) && !strchr("_.-", name[i]))
			return -EINVAL;
	}
	return 0;
}

struct handle_table *object_slots(struct registry *registry, enum object_type type)
{
	struct handle_table *slots[N_OBJECT_TYPES] = {
		[OBJECT_ALLOCATION] = &registry->allocations,
		[OBJECT_STREAM] = &registry->streams,
		[OBJECT_DEVICE] = &registry->devices,
		[OBJECT_OWNER] = &registry->owners,
		[OBJECT_MODULE] = &registry->modules,
		[OBJECT_FUNCTION] = &registry->functions,
		[OBJECT_FOLDER] = &registry->folders,
	};

	return slots[type];
}

void *object_get(struct registry *registry, enum object_type type, struct token token)
{
	struct handle_table *slots = object_slots(registry, type);

	if (type == OBJECT_FUNCTION)
		return function_get(registry, token.slot, token.generation);
	if (type == OBJECT_MODULE)
		return module_get(registry, token);
	return slots ? handle_table_get(slots, token.slot, token.generation) : NULL;
}

struct full_name object_name(enum object_type type, const void *object)
{
	struct full_name name;

	if (type == OBJECT_ALLOCATION)
		return allocation_name(object);
	if (type == OBJECT_MODULE)
		return module_name(object);
	if (type == OBJECT_FOLDER)
		return entry_name(&((const struct folder *)object)->entry);
	if (type == OBJECT_STREAM)
		snprintf(name.text, sizeof(name.text), "%s",
			 ((const struct stream *)object)->name);
	else if (type == OBJECT_FUNCTION)
		snprintf(name.text, sizeof(name.text), "%s",
			 ((const struct function *)object)->shown);
	else if (type == OBJECT_DEVICE)
		snprintf(name.text, sizeof(name.text), "%u",
			 ((const struct device *)object)->index);
	else
		snprintf(name.text, sizeof(name.text), "%u",
			 ((const struct owner *)object)->uid);
	return name;
}

struct object_ref entry_ref(struct entry *entry)
{
	const struct allocation *allocation = allocation_of(entry);
	const struct module *module = module_of(entry);

	if (allocation)
		return (struct object_ref){
			OBJECT_ALLOCATION,
			{ allocation->slot, allocation->slot_generation },
		};
	if (module)
		return (struct object_ref){ OBJECT_MODULE,
					    { module->slot, module->slot_generation } };
	return folder_ref(entry_folder(entry));
}

bool object_path(struct registry *registry, enum object_type type, struct token token,
		 struct text *text)
{
	const struct folder *folder = folder_get(registry, type, token);
	const void *object = object_get(registry, type, token);

	if (folder) {
		text_printf(text, "%s/%s", folders[folder->holds],
			    entry_name(&folder->entry).text);
		return true;
	}
	if (!object)
		return false;
	if (type == OBJECT_FUNCTION)
		text_printf(text, "%s/%s/", folders[OBJECT_MODULE],
			    module_name(((const struct function *)object)->image->module)
				    .text);
	text_printf(text, "%s/%s", folders[type], object_name(type, object).text);
	return true;
}

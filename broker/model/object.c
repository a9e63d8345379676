/* SPDX-License-Identifier: MIT */
#include "model/object.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
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
	};

	return slots[type];
}

void *object_get(struct registry *registry, enum object_type type, struct token token)
{
	struct handle_table *slots = object_slots(registry, type);

	if (type == OBJECT_FUNCTION)
		return function_get(registry, token.slot, token.generation);
	return slots ? handle_table_get(slots, token.slot, token.generation) : NULL;
}

void object_name(enum object_type type, const void *object,
		 char ret_name[LISTED_NAME_MAX + 1])
{
	if (type == OBJECT_ALLOCATION)
		strcpy(ret_name, ((const struct allocation *)object)->name);
	else if (type == OBJECT_STREAM)
		strcpy(ret_name, ((const struct stream *)object)->name);
	else if (type == OBJECT_MODULE)
		strcpy(ret_name, ((const struct module *)object)->name);
	else if (type == OBJECT_FUNCTION)
		strcpy(ret_name, ((const struct function *)object)->shown);
	else if (type == OBJECT_DEVICE)
		snprintf(ret_name, OBJECT_NAME_MAX, "%u",
			 ((const struct device *)object)->index);
	else
		snprintf(ret_name, OBJECT_NAME_MAX, "%u",
			 ((const struct owner *)object)->uid);
}

bool object_path(struct registry *registry, enum object_type type, struct token token,
		 struct text *text)
{
	const void *object = object_get(registry, type, token);
	char name[LISTED_NAME_MAX + 1];

	if (!object)
		return false;
	object_name(type, object, name);
	if (type == OBJECT_FUNCTION)
		text_printf(text, "%s/%s/", folders[OBJECT_MODULE],
			    ((const struct function *)object)->image->module->name);
	text_printf(text, "%s/%s", folders[type], name);
	return true;
}

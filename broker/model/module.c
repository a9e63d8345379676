/* SPDX-License-Identifier: MIT */
#include "model/module.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"

#define SHOWN_LENGTH 240 /* bytes kept of a shortened name */

/* ---- modules ---- */

int module_new(struct module **ret_module, struct registry *registry,
	       struct folder *folder, const char *name, struct owner *owner)
{
	struct module *module;
	int r;

	if (folder_find(folder, name))
		return -EEXIST;
	r = share_take(owner, SHARE_MODULES, 1);
	if (r < 0)
		return r;
	module = calloc(1, sizeof(*module));
	r = module ? handle_table_add(&registry->modules, module, &module->slot,
				      &module->slot_generation)
		   : -ENOMEM;
	if (r < 0) {
		share_give(owner, SHARE_MODULES, 1);
		free(module);
		return r;
	}
	module->entry.type = OBJECT_MODULE;
	r = entry_add(&module->entry, folder, name);
	if (r < 0) {
		share_give(owner, SHARE_MODULES, 1);
		handle_table_remove(&registry->modules, module->slot);
		free(module);
		return r;
	}
	module->id = registry_new_id(registry, ID_MODULE);
	module->owner = owner;
	module->gid = owner->gid;
	module->mode = 0600;
	module->folder_mode = 0700;
	module->created_s = time(NULL);
	registry->n_modules++;
	*ret_module = module;
	return 0;
}

/* Takes a module in the tree out of the counts. */
static void module_uncount(struct registry *registry, struct module *module)
{
	registry->n_modules--;
	share_give(module->owner, SHARE_MODULES, 1);
}

/* The sentence is short, and a user has so many modules. */
static char *log_refused(struct owner *owner)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	text_printf(&text, "the log is not kept: ");
	share_explain(owner, &text);
	text_add(&text, "\n", 1);
	return text_failed(&text) ? NULL : take_ptr(text.data);
}

void module_set_log(struct module *module, char *log)
{
	uint64_t size = log ? strlen(log) + 1 : 0;

	free(module->log);
	share_give(module->owner, SHARE_LOGS, module->log_charged);
	module->log_charged = 0;
	if (share_take(module->owner, SHARE_LOGS, size) == 0) {
		module->log_charged = size;
		module->log = log;
		return;
	}
	free(log);
	module->log = log_refused(module->owner);
}

struct module *module_free(struct registry *registry, struct module *module)
{
	assert(!module->image && module->n_loads == 0 && module->n_launches == 0);
	if (!module->folder) {
		entry_remove(&module->entry);
		module_uncount(registry, module);
	}
	handle_table_remove(&registry->modules, module->slot);
	entry_deinit(&module->entry);
	module_set_log(module, NULL);
	free(module);
	return NULL;
}

void module_become(struct registry *registry, struct module *module,
		   struct folder *folder)
{
	module_uncount(registry, module);
	module->folder = folder;
}

struct full_name module_name(const struct module *module)
{
	return entry_name(&module->entry);
}

struct module *module_of(struct entry *entry)
{
	if (!entry || entry->type != OBJECT_MODULE)
		return NULL;
	return container_of(entry, struct module, entry);
}

struct module *module_find(struct registry *registry, const char *name,
			   const struct caller *caller, struct refusal *refusal)
{
	return module_of(path_find(registry, OBJECT_MODULE, name, caller, refusal));
}

struct module *module_get(const struct registry *registry, struct token token)
{
	struct module *module =
		handle_table_get(&registry->modules, token.slot, token.generation);

	return module && !module->folder ? module : NULL;
}

bool module_is_fresh(const struct module *module)
{
	return !module->image && module->n_loads == 0;
}

/* Removes the functions of an image from the tables of names and tokens. */
static void image_withdraw(struct registry *registry, struct image *image)
{
	struct function *function;

	if (image->withdrawn)
		return;
	for (function = image->functions; function; function = function->hh.next)
		handle_table_remove(&registry->functions, function->slot);
	image->withdrawn = true;
	image->module = NULL;
}

struct image *module_set_image(struct registry *registry, struct module *module,
			       struct image *image)
{
	struct image *old = module->image;

	if (old)
		image_withdraw(registry, old);
	module->image = image;
	if (image)
		image->module = module;
	return old;
}

/* ---- images ---- */

int image_new(struct image **ret_image, struct registry *registry, struct module *module,
	      int fd, uint64_t size)
{
	struct image *image;
	int r;

	r = share_take(module->owner, SHARE_LOADED, size);
	if (r < 0)
		return r;
	r = share_take(module->owner, SHARE_DESCRIPTORS, 1);
	image = r == 0 ? calloc(1, sizeof(*image)) : NULL;
	if (!image) {
		share_give(module->owner, SHARE_LOADED, size);
		share_give(module->owner, SHARE_DESCRIPTORS, r == 0);
		return r < 0 ? r : -ENOMEM;
	}
	if (!++registry->n_wire_images)
		registry->n_wire_images++;
	image->wire_id = registry->n_wire_images;
	image->device = module->device;
	image->owner = module->owner;
	image->serial = ++module->n_serials;
	image->n_refs = 1;
	image->fd = fd;
	image->size = size;
	*ret_image = image;
	return 0;
}

struct image *image_ref(struct image *image)
{
	image->n_refs++;
	return image;
}

bool image_unref(struct image *image)
{
	assert(image->n_refs > 0);
	return --image->n_refs == 0;
}

static void function_free(struct function *function)
{
	if (!function)
		return;
	free(function->name);
	free(function->shown);
	free(function->params);
	free(function);
}

struct image *image_free(struct registry *registry, struct image *image)
{
	struct function *function, *safe;

	assert(image->n_refs == 0);
	image_withdraw(registry, image);
	share_give(image->owner, SHARE_LOADED, image->size);
	share_give(image->owner, SHARE_DESCRIPTORS, 1);
	HASH_ITER (hh, image->functions, function, safe) {
		HASH_DEL(image->functions, function);
		share_give(image->owner, SHARE_NAMES, function->charged);
		function_free(function);
	}
	free(image);
	return NULL;
}

/* ---- functions ---- */

static bool can_stand(char c)
{
	return c > ' ' && c < 0x7f && c != '/';
}

void function_show_name(const char *name, char ret_shown[FUNCTION_NAME_MAX + 1])
{
	size_t length = strlen(name), kept = MIN(length, (size_t)SHOWN_LENGTH);
	bool whole = length > 0 && length <= FUNCTION_NAME_MAX && strcmp(name, ".") &&
		     strcmp(name, "..");

	for (size_t i = 0; whole && i < length; i++)
		whole = can_stand(name[i]);
	if (whole) {
		memcpy(ret_shown, name, length + 1);
		return;
	}
	for (size_t i = 0; i < kept; i++)
		ret_shown[i] = can_stand(name[i]) ? name[i] : '_';
	snprintf(ret_shown + kept, FUNCTION_NAME_MAX + 1 - kept, "~%014llx",
		 (unsigned long long)(text_hash(name, length) >> 8));
}

static struct function *function_new(const char *name, const struct param *params,
				     uint32_t n_params)
{
	char shown[FUNCTION_NAME_MAX + 1];
	struct function *function = calloc(1, sizeof(*function));

	if (!function)
		return NULL;
	function_show_name(name, shown);
	function->name = strdup(name);
	function->shown = strdup(shown);
	function->params = calloc(MAX(n_params, 1u), sizeof(*params));
	function->n_params = n_params;
	if (!function->name || !function->shown || !function->params) {
		function_free(function);
		return NULL;
	}
	if (n_params)
		memcpy(function->params, params, n_params * sizeof(*params));
	return function;
}

int image_add_function(struct function **ret_function, struct registry *registry,
		       struct image *image, const char *name, uint32_t index,
		       bool has_params, const struct param *params, uint32_t n_params)
{
	struct function *function, *other;
	int r;

	assert(!image->withdrawn);
	function = function_new(name, params, n_params);
	if (!function)
		return -ENOMEM;
	function->id = ++registry->n_functions_made;
	function->index = index;
	function->has_params = has_params;
	function->image = image;
	function->charged = sizeof(*function) + strlen(function->name) +
			    strlen(function->shown) + n_params * sizeof(*params);
	HASH_FIND(hh, image->functions, function->shown, strlen(function->shown), other);
	r = other ? -EEXIST : share_take(image->owner, SHARE_NAMES, function->charged);
	if (r == 0) {
		r = handle_table_add(&registry->functions, function, &function->slot,
				     &function->slot_generation);
		if (r < 0)
			share_give(image->owner, SHARE_NAMES, function->charged);
	}
	if (r < 0) {
		function_free(function);
		return r;
	}
	HASH_ADD_KEYPTR(hh, image->functions, function->shown, strlen(function->shown),
			function);
	image->n_functions++;
	*ret_function = function;
	return 0;
}

struct function *image_find_function(const struct image *image, const char *name)
{
	char shown[FUNCTION_NAME_MAX + 1];
	struct function *function;

	HASH_FIND(hh, image->functions, name, strlen(name), function);
	if (function)
		return function;
	function_show_name(name, shown);
	HASH_FIND(hh, image->functions, shown, strlen(shown), function);
	return function && strcmp(function->name, name) == 0 ? function : NULL;
}

struct function *function_get(const struct registry *registry, uint32_t slot,
			      uint32_t generation)
{
	struct function *function =
		handle_table_get(&registry->functions, slot, generation);

	return function && function->image->module ? function : NULL;
}

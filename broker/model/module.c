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
#include "model/save_module.h"
#include "model/shares.h"
#include "record/records.h"
#include "record/texts.h"

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
	r = module ? module_record_take(registry, module) : -ENOMEM;
	if (r == 0)
		r = handle_table_add(&registry->modules, module, &module->slot,
				     &module->slot_generation);
	if (r < 0) {
		share_give(owner, SHARE_MODULES, 1);
		if (module)
			module_record_drop(module);
		free(module);
		return r;
	}
	module->entry.type = OBJECT_MODULE;
	r = entry_add(&module->entry, folder, name);
	if (r < 0) {
		share_give(owner, SHARE_MODULES, 1);
		handle_table_remove(&registry->modules, module->slot);
		module_record_drop(module);
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
	module_save(module);
	*ret_module = module;
	return 0;
}

int module_place(struct registry *registry, struct module *module, struct folder *folder,
		 const char *name, uint32_t place)
{
	int r = entry_restore_at(&module->entry, folder, strdup(name), place);

	if (r < 0)
		return r;
	share_restore(module->owner, SHARE_MODULES, 1);
	registry->n_modules++;
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

/* Without memory there is no log. */
static void module_save_log(struct module *module)
{
	uint32_t old = module->log_text;

	module->log_text = 0;
	if (module->log && module->record) {
		module->log_text = record_text_add(module->records, module->log,
						   strlen(module->log));
		if (!module->log_text)
			free(take_ptr(module->log));
	}
	if (old || module->log_text)
		module_save(module);
	record_text_drop(module->records, old);
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
	} else {
		free(log);
		module->log = log_refused(module->owner);
	}
	module_save_log(module);
}

struct module *module_free(struct registry *registry, struct module *module)
{
	assert(!module->image && module->n_loads == 0 && module->n_launches == 0);
	module_record_drop(module);
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

void module_unbecome(struct registry *registry, struct module *module)
{
	share_restore(module->owner, SHARE_MODULES, 1);
	registry->n_modules++;
	module->folder = NULL;
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

struct image *module_set_image(struct module *module, struct image *image)
{
	struct image *old = module->image;

	module->image = image;
	if (image) {
		image->module = module;
		image_save(image);
	}
	module_save(module);
	if (old) {
		old->withdrawn = true;
		old->module = NULL;
	}
	return old;
}

/* ---- images ---- */

static void image_fill(struct registry *registry, struct image *image,
		       const struct module *module, int fd, uint64_t size)
{
	if (!++registry->n_wire_images)
		registry->n_wire_images++;
	image->wire_id = registry->n_wire_images;
	image->owner = module->owner;
	image->made_for = module->record;
	image->n_refs = 1;
	image->fd = fd;
	image->size = size;
}

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
	image_fill(registry, image, module, fd, size);
	image->device = module->device;
	image->serial = ++module->n_serials;
	*ret_image = image;
	return 0;
}

struct image *image_remake(struct registry *registry, const struct module *module, int fd,
			   uint64_t size)
{
	struct image *image = calloc(1, sizeof(*image));

	if (!image)
		return NULL;
	share_restore(module->owner, SHARE_LOADED, size);
	share_restore(module->owner, SHARE_DESCRIPTORS, 1);
	image_fill(registry, image, module, fd, size);
	return image;
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

void image_end_names(struct image *image)
{
	share_give(image->owner, SHARE_NAMES, image->charged);
	image->charged = 0;
}

bool image_free_some(struct registry *registry, struct image *image)
{
	assert(image->n_refs == 0 && !image->module);
	records_begin(registry->records);
	for (int n = 0; n < FUNCTIONS_AT_ONCE && image->functions; n++) {
		struct function *function = image->functions;

		HASH_DEL(image->functions, function);
		handle_table_remove(&registry->functions, function->slot);
		function_record_drop(function);
		function_free(function);
	}
	records_end(registry->records);
	return !image->functions;
}

struct image *image_free(struct registry *registry, struct image *image)
{
	image_end_names(image);
	/* The record of a function names that of the image. */
	while (!image_free_some(registry, image))
		;
	image_record_drop(image);
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

static struct function *function_new(struct image *image, const char *name,
				     const struct param *params, uint32_t n_params)
{
	char shown[FUNCTION_NAME_MAX + 1];
	struct function *function = calloc(1, sizeof(*function));

	if (!function)
		return NULL;
	function_show_name(name, shown);
	function->image = image;
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

/*
 * Of the share SHARE_NAMES, in bytes. With it the functions of OWNERS_OF_RANGE owners
 * have room among the SLOTS_MAX of all.
 */
#define FUNCTION_COST 1024

/* Charges for a function, unless the image has its name. Returns: 0; -EEXIST, -EDQUOT. */
static int function_charge(struct function *function)
{
	struct image *image = function->image;
	struct function *other;
	int r;

	HASH_FIND(hh, image->functions, function->shown, strlen(function->shown), other);
	function->charged = FUNCTION_COST + strlen(function->name) +
			    strlen(function->shown) +
			    function->n_params * sizeof(*function->params);
	r = other ? -EEXIST : share_take(image->owner, SHARE_NAMES, function->charged);
	if (r < 0)
		function->charged = 0;
	return r;
}

/* Frees a function not added to its image. Returns: r. */
static int function_discard(struct function *function, int r)
{
	share_give(function->image->owner, SHARE_NAMES, function->charged);
	function_free(function);
	return r;
}

static void function_list(struct function *function)
{
	struct image *image = function->image;

	HASH_ADD_KEYPTR(hh, image->functions, function->shown, strlen(function->shown),
			function);
	image->n_functions++;
	image->charged += function->charged;
}

int image_add_function(struct function **ret_function, struct registry *registry,
		       struct image *image, const char *name, uint32_t index,
		       bool has_params, const struct param *params, uint32_t n_params)
{
	struct function *function;
	int r;

	assert(!image->withdrawn);
	function = function_new(image, name, params, n_params);
	if (!function)
		return -ENOMEM;
	function->index = index;
	function->has_params = has_params;
	r = function_charge(function);
	if (r == 0)
		r = handle_table_add(&registry->functions, function, &function->slot,
				     &function->slot_generation);
	if (r < 0)
		return function_discard(function, r);
	function->id = registry_new_id(registry, ID_FUNCTION);
	r = function_save_new(function);
	if (r < 0) {
		handle_table_remove(&registry->functions, function->slot);
		return function_discard(function, r);
	}
	function_list(function);
	*ret_function = function;
	return 0;
}

int image_remake_function(struct function **ret_function, struct registry *registry,
			  struct image *image, const char *name,
			  const struct param *params, uint32_t n_params,
			  struct token token)
{
	struct function *function = function_new(image, name, params, n_params);
	int r = function ? function_charge(function) : -ENOMEM;

	if (r == 0)
		r = handle_table_put(&registry->functions, function, token.slot,
				     token.generation);
	if (r < 0)
		return function ? function_discard(function, r) : r;
	function->slot = token.slot;
	function->slot_generation = token.generation;
	function_list(function);
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

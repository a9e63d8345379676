/* SPDX-License-Identifier: MIT */
#include "model/save_module.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/def.h"
#include "base/text.h"
#include "model/folder.h"
#include "model/module.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"
#include "record/records.h"
#include "record/texts.h"

/* ---- modules ---- */

int module_record_take(struct registry *registry, struct module *module)
{
	module->records = registry->records;
	return records_take(registry->records, RECORD_MODULE, &module->record);
}

void module_to_record(const struct module *module, struct module_record *ret_record)
{
	const struct folder *folder = module->folder ?: module->entry.folder;

	*ret_record = (struct module_record){
		.id = module->id,
		.created_s = module->created_s,
		.loaded_s = module->loaded_s,
		.settled = module->settled,
		.slot = module->slot,
		.slot_generation = module->slot_generation,
		.folder = folder ? folder->record : 0,
		.owner = module->owner->uid,
		.gid = module->gid,
		.mode = module->mode,
		.folder_mode = module->folder_mode,
		.device = module->device,
		.failed = module->failed,
		.image = module->image ? module->image->record : 0,
		.log = module->log_text,
		.place = entry_place(&module->entry),
	};
	if (!module->folder)
		strcpy(ret_record->name, module->entry.name);
}

void module_save(const struct module *module)
{
	struct module_record record;

	if (!module->record)
		return;
	module_to_record(module, &record);
	records_save(module->records, RECORD_MODULE, module->record, &record);
}

void module_record_drop(struct module *module)
{
	records_drop(module->records, RECORD_MODULE, module->record);
	module->record = 0;
}

/* Returns: 0; -ENOMEM. */
static int module_take_log(struct module *module, const struct module_record *record)
{
	_cleanup_text_ struct text log = TEXT_INIT;

	if (!record->log)
		return 0;
	record_text_show(module->records, record->log, &log);
	if (text_failed(&log))
		return -ENOMEM;
	module->log_charged = log.length + 1;
	module->log = take_ptr(log.data);
	module->log_text = record->log;
	share_take_beyond(module->owner, SHARE_LOGS, module->log_charged);
	return 0;
}

int module_restore(struct module **ret_module, struct registry *registry,
		   struct owner *owner, uint32_t index,
		   const struct module_record *record)
{
	struct module *module;
	int r;

	if (record->device >= registry->n_devices)
		return -EINVAL;
	module = calloc(1, sizeof(*module));
	if (!module)
		return -ENOMEM;
	module->records = registry->records;
	module->record = index;
	module->entry.type = OBJECT_MODULE;
	module->id = record->id;
	module->owner = owner;
	module->gid = record->gid;
	module->mode = (uint16_t)record->mode;
	module->folder_mode = (uint16_t)record->folder_mode;
	module->device = record->device;
	module->created_s = record->created_s;
	module->loaded_s = record->loaded_s;
	module->n_serials = module->settled = record->settled;
	module->failed = record->failed;
	module->slot = record->slot;
	module->slot_generation = record->slot_generation;
	r = module_take_log(module, record);
	if (r == 0)
		r = handle_table_put(&registry->modules, module, module->slot,
				     module->slot_generation);
	/* On failure the process ends: nothing is freed here. */
	if (r == 0)
		*ret_module = module;
	return r;
}

/* ---- images ---- */

void image_record_set(struct registry *registry, struct image *image, uint32_t index)
{
	image->records = registry->records;
	image->record = index;
	image_save(image);
}

void image_to_record(const struct image *image, struct image_record *ret_record)
{
	*ret_record = (struct image_record){
		.size = image->size,
		.serial = image->serial,
		.module = image->made_for,
		.device = image->device,
		.enumerated = image->enumerated,
	};
}

void image_save(const struct image *image)
{
	struct image_record record;

	image_to_record(image, &record);
	records_save(image->records, RECORD_IMAGE, image->record, &record);
}

void image_record_drop(struct image *image)
{
	records_drop(image->records, RECORD_IMAGE, image->record);
	image->record = 0;
}

int image_restore(struct registry *registry, struct module *module, uint32_t index,
		  const struct image_record *record, int fd)
{
	struct image *image = record->device < registry->n_devices
				      ? image_remake(registry, module, fd, record->size)
				      : NULL;

	if (!image)
		return record->device < registry->n_devices ? -ENOMEM : -EINVAL;
	image->records = registry->records;
	image->record = index;
	image->device = record->device;
	image->serial = record->serial;
	image->enumerated = record->enumerated;
	module->n_serials = MAX(module->n_serials, record->serial);
	module->image = image;
	image->module = module;
	return 0;
}

/* ---- functions ---- */

void function_to_record(const struct function *function,
			struct function_record *ret_record)
{
	*ret_record = (struct function_record){
		.id = function->id,
		.slot = function->slot,
		.slot_generation = function->slot_generation,
		.image = function->image->record,
		.index = function->index,
		.text = function->text,
		.n_params = function->n_params,
		.has_params = function->has_params,
	};
}

int function_save_new(struct function *function)
{
	struct records *records = function->image->records;
	_cleanup_text_ struct text text = TEXT_INIT;
	struct function_record record;

	if (!function->image->record)
		return 0;
	for (uint32_t i = 0; i < function->n_params; i++) {
		text_add_number(&text, function->params[i].offset);
		text_add(&text, " ", 1);
		text_add_number(&text, function->params[i].size);
		text_add(&text, " ", 1);
	}
	text_printf(&text, "=%s", function->name);
	if (text_failed(&text))
		return -ENOMEM;
	function->text = record_text_add(records, text.data, text.length);
	function->record = function->text ? records_add(records, RECORD_FUNCTION) : 0;
	if (!function->record) {
		record_text_drop(records, function->text);
		return -ENOMEM;
	}
	function_to_record(function, &record);
	records_save(records, RECORD_FUNCTION, function->record, &record);
	return 0;
}

void function_record_drop(struct function *function)
{
	struct records *records = function->image->records;

	records_drop(records, RECORD_FUNCTION, function->record);
	record_text_drop(records, function->text);
	function->record = function->text = 0;
}

/* Takes a number and the blank behind. Returns: false: there is none. */
static bool number_read(const char **text, uint32_t *ret_number)
{
	char *end;
	unsigned long number = strtoul(*text, &end, 10);

	if (end == *text || number > UINT32_MAX || *end != ' ')
		return false;
	*text = end + 1;
	*ret_number = (uint32_t)number;
	return true;
}

/* Returns: 0; -EINVAL, -ENOMEM. */
static int params_read(const char *text, uint32_t n, struct param **ret_params,
		       const char **ret_name)
{
	struct param *params;

	/* Each takes four bytes or more. */
	if (n > strlen(text) / 4)
		return -EINVAL;
	params = *ret_params = calloc(MAX(n, 1u), sizeof(*params));
	if (!params)
		return -ENOMEM;
	/* sscanf(3) would measure all of the text for each. */
	for (uint32_t i = 0; i < n; i++) {
		if (!number_read(&text, &params[i].offset) ||
		    !number_read(&text, &params[i].size))
			return -EINVAL;
	}
	*ret_name = text + 1;
	return *text == '=' ? 0 : -EINVAL;
}

int function_restore(struct registry *registry, struct image *image, uint32_t index,
		     const struct function_record *record)
{
	const struct token token = { record->slot, record->slot_generation };
	_cleanup_text_ struct text text = TEXT_INIT;
	_cleanup_free_ struct param *params = NULL;
	struct function *function;
	const char *name;
	int r;

	record_text_show(registry->records, record->text, &text);
	if (text_failed(&text))
		return -ENOMEM;
	r = params_read(text_string(&text), record->n_params, &params, &name);
	if (r == 0)
		r = image_remake_function(&function, registry, image, name, params,
					  record->n_params, token);
	if (r < 0)
		return r;
	function->id = record->id;
	function->index = record->index;
	function->has_params = record->has_params;
	function->record = index;
	function->text = record->text;
	return 0;
}

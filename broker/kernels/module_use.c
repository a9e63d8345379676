/* SPDX-License-Identifier: MIT */
#include "kernels/module_use.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/completion.h"
#include "base/def.h"
#include "base/refusal.h"
#include "base/text.h"
#include "base/workqueue.h"
#include "memops/late_close.h"
#include "memory/kept.h"
#include "model/access.h"
#include "model/journal.h"
#include "model/location.h"
#include "model/module.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/save_module.h"
#include "process/broker.h"
#include "process/worker.h"
#include "record/records.h"

/* ---- uses ---- */

static int module_check(const struct module *module, const struct caller *caller,
			struct refusal *refusal)
{
	if (caller->uid == 0 || caller->uid == module->owner->uid)
		return 0;
	return refuse(refusal, EACCES, "module %s belongs to uid %u, not to uid %u",
		      module_name(module).text, module->owner->uid, caller->uid);
}

static void module_use_set(struct module_use *use, struct module *module,
			   const struct function *function)
{
	module->n_launches++;
	*use = (struct module_use){
		.module = module,
		.image = image_ref(module->image),
		.function = function,
	};
}

/* Functions that are looked at for a hint: an image may have 65,536. */
#define HINT_LOOKS 100

/*
 * The function that has this name in C++: `_Z3addPfS_i` for `add`. (A demangler would
 * parse names that come from a user's module inside of the broker.) NULL: none among the
 * first.
 */
static const struct function *find_mangled(const struct image *image, const char *name)
{
	const struct function *function = image->functions;
	char start[FUNCTION_NAME_MAX + 32];
	int length = snprintf(start, sizeof(start), "_Z%zu%s", strlen(name), name);
	unsigned int n_left = HINT_LOOKS;

	if ((size_t)length >= sizeof(start))
		return NULL;
	for (; function && n_left; function = function->hh.next, n_left--) {
		if (strncmp(function->name, start, (size_t)length) == 0)
			return function;
	}
	return NULL;
}

static int refuse_function(const struct module *module, const char *name,
			   struct refusal *refusal)
{
	const struct image *image = module->image;
	const struct function *function;
	char more[32] = "";

	if (!image->functions)
		return refuse(refusal, ENOENT, "module %s has no functions",
			      module_name(module).text);
	function = find_mangled(image, name);
	if (function)
		return refuse(refusal, ENOENT,
			      "module %s has no function '%.64s'; it has %s: C++ changes "
			      "names, extern \"C\" keeps them",
			      module_name(module).text, name, function->shown);
	if (image->n_functions > 1)
		snprintf(more, sizeof(more), " and %u more", image->n_functions - 1);
	return refuse(refusal, ENOENT, "module %s has no function '%.64s'; it has %s%s",
		      module_name(module).text, name, image->functions->shown, more);
}

int module_use_begin(struct broker *broker, const struct caller *caller, const char *name,
		     const char *function_name, struct module_use *ret_use,
		     struct refusal *refusal)
{
	struct module *module = module_find(broker->registry, name, caller, refusal);
	const struct function *function;
	int r;

	if (!module)
		return -refusal->error;
	r = module_check(module, caller, refusal);
	if (r < 0)
		return r;
	if (!module->image)
		return refuse(refusal, ENOENT,
			      "module %s has nothing loaded: write modules/%s/image",
			      name, name);
	function = image_find_function(module->image, function_name);
	if (!function && !module->image->enumerated)
		return -EAGAIN;
	if (!function)
		return refuse_function(module, function_name, refusal);
	module_use_set(ret_use, module, function);
	return 0;
}

int module_use_begin_token(struct broker *broker, const struct caller *caller,
			   struct token token, struct module_use *ret_use,
			   struct refusal *refusal)
{
	const struct function *function =
		function_get(broker->registry, token.slot, token.generation);
	int r;

	if (!function)
		return refuse(refusal, ESTALE,
			      "the image of this function has been replaced, or its "
			      "module removed");
	r = module_check(function->image->module, caller, refusal);
	if (r == 0)
		module_use_set(ret_use, function->image->module, function);
	return r;
}

/* ---- images ---- */

/* The end of an image with many functions. */
struct ending {
	struct task task;
	struct broker *broker;
	struct image *image;
};

static void image_end_now(struct broker *broker, struct image *image)
{
	const struct late_close end = {
		.fds = { image->fd, -1, -1 },
		.kept = kept_key(broker->memory, RECORD_IMAGE, image->record),
		.bytes = image->size,
		.payer = image->owner,
		.share = SHARE_LOADED,
		.size = image->size,
		.n_descriptors = 1,
	};

	records_begin(broker->registry->records);
	image_free(broker->registry, image);
	records_end(broker->registry->records);
	late_close(broker, &end);
}

static void ending_run(struct task *task)
{
	struct ending *ending = container_of(task, struct ending, task);
	struct registry *registry = ending->broker->registry;

	pthread_mutex_lock(&registry->lock);
	while (!image_free_some(registry, ending->image))
		registry_let_others(registry);
	image_end_now(ending->broker, ending->image);
	registry_less_busy(registry);
	pthread_mutex_unlock(&registry->lock);
	free(ending);
}

void image_end(struct broker *broker, struct image *image)
{
	struct ending *ending = NULL;
	uid_t uid = image->owner->uid;

	image_end_names(image);
	if (image->n_functions > FUNCTIONS_AT_ONCE)
		ending = calloc(1, sizeof(*ending));
	/* Without memory others wait. */
	if (!ending) {
		image_end_now(broker, image);
		return;
	}
	*ending = (struct ending){
		.task = { .run = ending_run, .length = TASK_LONG },
		.broker = broker,
		.image = image,
	};
	broker->registry->n_busy++;
	workqueue_add(broker->workqueue, uid, &ending->task);
}

static void module_drop_image(struct broker *broker, struct image *image)
{
	struct owner *owner = image->owner;

	if (!image_unref(image))
		return;
	if (owner->worker)
		worker_drop_image(owner->worker, image);
	image_end(broker, image);
}

void module_use_end(struct broker *broker, struct module_use *use)
{
	use->module->n_launches--;
	module_drop_image(broker, use->image);
	*use = (struct module_use){ 0 };
}

void module_put_image(struct broker *broker, struct image *image)
{
	pthread_mutex_lock(&broker->registry->lock);
	module_drop_image(broker, image);
	pthread_mutex_unlock(&broker->registry->lock);
}

/* ---- making and removing ---- */

int module_create(struct broker *broker, struct folder *folder, const char *name,
		  struct owner *owner, mode_t folder_mode, struct token *ret_token,
		  struct refusal *refusal)
{
	_cleanup_text_ struct text share = TEXT_INIT;
	struct module *module;
	int r;

	r = module_new(&module, broker->registry, folder, name, owner);
	if (r == -EEXIST)
		return refuse(refusal, EEXIST, "module %s is there already", name);
	if (r == -EDQUOT) {
		share_explain(owner, &share);
		return refuse(refusal, EDQUOT, "%s", text_string(&share));
	}
	if (r < 0)
		return refuse(refusal, -r, "no memory in the broker");
	module->folder_mode = (uint16_t)(folder_mode & 0777);
	module_save(module);
	*ret_token = (struct token){ module->slot, module->slot_generation };
	return 0;
}

static int module_check_removal(const struct module *module, const struct caller *caller,
				struct refusal *refusal)
{
	if (caller->uid != 0 && caller->uid != module->owner->uid)
		return refuse(refusal, EPERM,
			      "module %s belongs to uid %u, not to uid %u",
			      module_name(module).text, module->owner->uid, caller->uid);
	if (module->n_launches)
		return refuse(refusal, EBUSY, "module %s has %u launches under way",
			      module_name(module).text, module->n_launches);
	if (module->n_loads)
		return refuse(refusal, EBUSY, "module %s is being loaded",
			      module_name(module).text);
	return 0;
}

int module_remove(struct broker *broker, struct module *module,
		  const struct caller *caller, struct refusal *refusal)
{
	struct image *image = NULL;
	int r = module_check_removal(module, caller, refusal);

	if (r == 0) {
		module_record_drop(module);
		image = module_set_image(module, NULL);
		journal_event_by(broker->journal, caller, "remove modules/%s",
				 module_name(module).text);
		module_free(broker->registry, module);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	if (image)
		module_put_image(broker, image);
	return r;
}

int module_store_device(struct broker *broker, struct module *module,
			const struct caller *caller, const char *value,
			struct refusal *refusal)
{
	int r;

	if (caller->uid != 0 && caller->uid != module->owner->uid)
		return refuse(refusal, EPERM,
			      "module %s belongs to uid %u, not to uid %u",
			      module_name(module).text, module->owner->uid, caller->uid);
	if (!module_is_fresh(module))
		return refuse(refusal, EBUSY,
			      "module %s has been loaded: its device can't change any "
			      "more; rmdir it and make it again",
			      module_name(module).text);
	r = line_device(value, broker->registry, &module->device, refusal);
	module_save(module);
	return r;
}

void modules_free(struct broker *broker)
{
	struct handle_table *modules = &broker->registry->modules;
	struct module *module;

	for (uint32_t slot = 0; (module = handle_table_next(modules, &slot)); slot++) {
		struct image *image;

		if (module->folder)
			continue; /* goes with the folder */
		image = module_set_image(module, NULL);

		module_free(broker->registry, module);
		if (image)
			module_put_image(broker, image);
	}
}

/* ---- longer than a line ---- */

void module_ask_log(struct broker *broker, struct token token,
		    const struct caller *caller, struct completion *wait)
{
	_cleanup_free_ char *log = NULL;
	const struct module *module;

	(void)caller;
	pthread_mutex_lock(&broker->registry->lock);
	module = module_get(broker->registry, token);
	if (module)
		log = strdup(module->log ?: "");
	pthread_mutex_unlock(&broker->registry->lock);
	if (log)
		wait->done(wait, 0, log, strlen(log));
	else
		wait->done(wait, module ? -ENOMEM : -ESTALE, NULL, 0);
}

int function_check_params(struct broker *broker, struct token token,
			  const struct caller *caller)
{
	_cleanup_text_ struct text file = TEXT_INIT;
	const struct function *function;
	int r = 0;

	pthread_mutex_lock(&broker->registry->lock);
	function = function_get(broker->registry, token.slot, token.generation);
	if (!function)
		r = -ESTALE;
	else if (!function->has_params)
		r = -EOPNOTSUPP;
	if (r == -EOPNOTSUPP)
		text_printf(&file, "modules/%s/functions/%s/params",
			    module_name(function->image->module).text, function->shown);
	pthread_mutex_unlock(&broker->registry->lock);
	if (r == -EOPNOTSUPP)
		journal_fail(broker->journal, caller->uid, caller->pid,
			     text_string(&file), EOPNOTSUPP,
			     "the driver can't tell the parameters of kernels "
			     "(cuFuncGetParamInfo: CUDA_ERROR_NOT_SUPPORTED)");
	return r;
}

/* A function may have some 30,000: they are printed without the lock. */
int function_print_params(struct broker *broker, struct token token, struct text *text)
{
	_cleanup_free_ struct param *params = NULL;
	const struct function *function;
	uint32_t n = 0;

	pthread_mutex_lock(&broker->registry->lock);
	function = function_get(broker->registry, token.slot, token.generation);
	if (function) {
		n = function->n_params;
		params = calloc(MAX(n, 1u), sizeof(*params));
	}
	if (params && n)
		memcpy(params, function->params, n * sizeof(*params));
	pthread_mutex_unlock(&broker->registry->lock);
	if (!params)
		return function ? -ENOMEM : -ESTALE;
	for (uint32_t i = 0; i < n; i++) {
		text_add_number(text, i);
		text_add(text, " ", 1);
		text_add_number(text, params[i].offset);
		text_add(text, " ", 1);
		text_add_number(text, params[i].size);
		text_add(text, "\n", 1);
	}
	return 0;
}

/* SPDX-License-Identifier: MIT */
#include "command/module.h"

#include <errno.h>
#include <string.h>

#include "command/state.h"

/* ---- uses ---- */

static int module_check(const struct module *module, const struct caller *caller,
			struct refusal *refusal)
{
	if (caller->uid == 0 || caller->uid == module->owner->uid)
		return 0;
	return refuse(refusal, EACCES, "module %s belongs to uid %u, not to uid %u",
		      module->name, module->owner->uid, caller->uid);
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

int module_use_begin(struct broker *broker, const struct caller *caller, const char *name,
		     const char *function_name, struct module_use *ret_use,
		     struct refusal *refusal)
{
	struct module *module = module_find(&broker->registry, name);
	const struct function *function;
	int r;

	if (!module)
		return refuse(refusal, ENOENT, "there is no module %s", name);
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
		return refuse(refusal, ENOENT,
			      "module %s has no function %s among its %u", name,
			      function_name, module->image->n_functions);
	module_use_set(ret_use, module, function);
	return 0;
}

int module_use_begin_token(struct broker *broker, const struct caller *caller,
			   struct token token, struct module_use *ret_use,
			   struct refusal *refusal)
{
	const struct function *function =
		function_get(&broker->registry, token.slot, token.generation);
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

void module_use_end(struct broker *broker, struct module_use *use)
{
	struct image *image = use->image;

	pthread_mutex_lock(&broker->registry.lock);
	use->module->n_launches--;
	pthread_mutex_unlock(&broker->registry.lock);
	*use = (struct module_use){ 0 };
	module_put_image(broker, image);
}

/* ---- images ---- */

void module_put_image(struct broker *broker, struct image *image)
{
	struct owner *owner = image->owner;
	int fd = -1;

	pthread_mutex_lock(&broker->registry.lock);
	if (image_unref(image)) {
		if (owner->worker)
			worker_drop_image(owner->worker, image);
		fd = image->fd;
		image_free(&broker->registry, image);
	}
	pthread_mutex_unlock(&broker->registry.lock);
	closep(&fd);
}

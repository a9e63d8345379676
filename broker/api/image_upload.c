/* SPDX-License-Identifier: MIT */
/* `image` of a module: loaded when it has been written (kernels/load.h). */
#include "api/upload_class.h"
#include "kernels/image_check.h"
#include "kernels/load.h"
#include "kernels/module_use.h"
#include "model/module.h"
#include "model/owner.h"

static void image_get(void *object, uid_t uid, struct contents *ret_contents)
{
	const struct module *module = object;

	if (!module->image)
		return;
	if (module->image->owner->uid == uid)
		ret_contents->object = image_ref(module->image);
	ret_contents->fd = module->image->fd;
	ret_contents->size = module->image->size;
}

static void image_put(struct broker *broker, const struct contents *contents)
{
	module_put_image(broker, contents->object);
}

const struct upload_class image_upload = {
	.file = "image",
	.most = IMAGE_MAX,
	.too_big = "an image has 256 MiB at most",
	.length = TASK_LONG,
	.get = image_get,
	.put = image_put,
	.announce = load_announce,
	.store = load_start,
};

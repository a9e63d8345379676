/* SPDX-License-Identifier: MIT */
/*
 * Modules, their images and functions, and the records of these (model/save.h).
 *
 * The keeper has the bytes of an image before a record names the image. Functions are
 * saved before the module names their image, and dropped after. Images and functions
 * without a module are dropped when the next broker starts.
 *
 * All under the registry's lock.
 */
#pragma once

#include <stdint.h>

struct function;
struct function_record;
struct image;
struct image_record;
struct module;
struct module_record;
struct owner;
struct registry;

/* Returns: 0; -ENOMEM, before the first save. */
int module_record_take(struct registry *registry, struct module *module);
void module_save(const struct module *module);
void module_record_drop(struct module *module);

/* index 0: the image is not saved. Takes the record over. */
void image_record_set(struct registry *registry, struct image *image, uint32_t index);
void image_save(const struct image *image);
void image_record_drop(struct image *image);

/* The functions of an image without a record are not saved. Returns: 0; -ENOMEM. */
int function_save_new(struct function *function);
void function_record_drop(struct function *function);

/*
 * Make a module, an image or a function of its record, in the order of slots. A module
 * comes back out of the tree. An image is linked to its module, and takes fd on success.
 * Returns: 0; -EEXIST, -EINVAL, -ENOMEM.
 */
int module_restore(struct module **ret_module, struct registry *registry,
		   struct owner *owner, uint32_t index,
		   const struct module_record *record);
int image_restore(struct registry *registry, struct module *module, uint32_t index,
		  const struct image_record *record, int fd);
int function_restore(struct registry *registry, struct image *image, uint32_t index,
		     const struct function_record *record);

/* Fill in the record of an object as its save does, but for the head. */
void module_to_record(const struct module *module, struct module_record *ret_record);
void image_to_record(const struct image *image, struct image_record *ret_record);
void function_to_record(const struct function *function,
			struct function_record *ret_record);

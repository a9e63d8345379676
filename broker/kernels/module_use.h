/* SPDX-License-Identifier: MIT */
/*
 * Use of modules by commands.
 *
 * A launch begins a use with registry.lock held, as soon as the kernel is known:
 *
 *	r = module_use_begin(broker, command->caller, M, F, &use, &refusal);
 *
 * use.module, use.image and use.function then stay until module_use_end(), called exactly
 * once, when the kernel is done (in settle() of the op). Meanwhile the
 * module can't be removed, and a new image does not disturb the use. The parameters are
 * use.function->params; has_params is false if the driver could not tell them.
 *
 * The kernel runs in the worker of use.module->owner, on use.image->device, even if root
 * launches it. So this owner must be allowed to use all arguments. The op sets
 * op->image to use.image: the worker, also a new process, then has the module loaded
 * before it reads the request, with use.image->wire_id and use.function->index. If the
 * module can't be loaded any more, the reply is the error of the load.
 *
 * -EAGAIN: a driver that can't enumerate was not asked for this function yet. Call
 * module_look_up() without the lock, and try again afterwards: -ENOENT from the look-up
 * means that there is no such function.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Reason for ending a worker whose replies about functions make no sense. */
#define FUNCTIONS_NONSENSE "told of functions that can't be"

struct broker;
struct caller;
struct completion;
struct folder;
struct module;
struct owner;
struct refusal;
struct text;
struct token;

struct module_use {
	struct module *module;
	struct image *image;
	const struct function *function;
};

/*
 * Begins the use of a function, by both names. Under registry.lock.
 *
 * Returns: 0; -EAGAIN without a refusal; -ENOENT when the module or function does not
 * exist or has no image yet; -EACCES.
 */
int module_use_begin(struct broker *broker, const struct caller *caller,
		     const char *module, const char *function, struct module_use *ret_use,
		     struct refusal *refusal);

/*
 * As module_use_begin(), by the token of the function's own file (OBJECT_FUNCTION).
 * Returns: 0; -ESTALE when the image has been replaced or the module removed; -EACCES.
 */
int module_use_begin_token(struct broker *broker, const struct caller *caller,
			   struct token function, struct module_use *ret_use,
			   struct refusal *refusal);

/* Ends a use. The last use of an image unloads and frees it. Under registry.lock. */
void module_use_end(struct broker *broker, struct module_use *use);

/*
 * Drops a reference to an image. The last drop unloads and frees the image. Takes
 * registry.lock.
 */
void module_put_image(struct broker *broker, struct image *image);

/*
 * Asks the worker for a function by name. done: 0 when the function is now known; -ENOENT
 * when it does not exist, or no image is loaded; -ESTALE, -EINTR, -EIO, -ENOMEM. Writes
 * no line to the journal.
 */
void module_look_up(struct broker *broker, struct token module, const char *name,
		    struct completion *wait);

/*
 * Frees an image without references, later if it has many functions. Its descriptor is
 * closed by the work queue. Under registry.lock.
 */
void image_end(struct broker *broker, struct image *image);

/* ---- the tree ---- */

/*
 * Makes a module, for mkdir. A module may become a folder (folder_from_module());
 * folder_mode is the mode of that folder. Under registry.lock.
 *
 * Returns: 0; -EEXIST, -EDQUOT, -ENOMEM.
 */
int module_create(struct broker *broker, struct folder *folder, const char *name,
		  struct owner *owner, mode_t folder_mode, struct token *ret_token,
		  struct refusal *refusal);

/*
 * rmdir. With registry.lock held; releases the lock. Returns: 0; -EPERM, -EBUSY.
 */
int module_remove(struct broker *broker, struct module *module,
		  const struct caller *caller, struct refusal *refusal);

/* Writes `device`. Under registry.lock. Returns: 0; -EPERM, -EBUSY, -EINVAL, -ENOENT. */
int module_store_device(struct broker *broker, struct module *module,
			const struct caller *caller, const char *value,
			struct refusal *refusal);

/* At the end of the broker, after all workers. */
void modules_free(struct broker *broker);

/* `params`: see struct attribute. The check fails where the driver can't tell them. */
int function_check_params(struct broker *broker, struct token function,
			  const struct caller *caller);
int function_print_params(struct broker *broker, struct token function,
			  struct text *text);

/* `log` and `attributes`: see broker_ask(). */
void module_ask_log(struct broker *broker, struct token module,
		    const struct caller *caller, struct completion *wait);
void function_ask_attributes(struct broker *broker, struct token function,
			     const struct caller *caller, struct completion *wait);

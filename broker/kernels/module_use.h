/* SPDX-License-Identifier: MIT */
/*
 * Modules as commands use them.
 *
 * A launch begins a use with registry.lock held, as soon as it knows which kernel it is:
 *
 *	r = module_use_begin(broker, command->caller, M, F, &use, &refusal);
 *
 * From then on use.module, use.image and use.function stay until module_use_end(), which
 * is called exactly once, when the kernel is done (in the op's finish), with no lock
 *held: the module can't be removed meanwhile, and an image that takes the place of this
 *one does not disturb it. Its parameters are use.function->params; where has_params is
 *false the driver could not tell them.
 *
 * The kernel runs in the worker of use.module->owner, on use.image->device: for root,
 *too, who may launch what is another's. So whatever the arguments name must be that
 *owner's to use. The op says op->image = use.image, and its worker has the module loaded,
 *in this run or the next, before it looks at the request; that names use.image->wire_id
 *and use.function->index. When the module can't be loaded any more, the request is
 *answered with the error of the load.
 *
 * -EAGAIN: a driver that can't enumerate has not been asked for this function yet. Then,
 * without the lock, module_look_up(), and once that is done try again: its -ENOENT tells
 * that there is none.
 */
#pragma once

#include "base/refusal.h"
#include "base/wait.h"
#include "model/access.h"
#include "model/module.h"
#include "model/object.h"

/* What ends a worker whose answers about functions make no sense. */
#define FUNCTIONS_NONSENSE "told of functions that can't be"

struct broker;

struct module_use {
	struct module *module;
	struct image *image;
	const struct function *function;
};

/*
 * Of a function by the names of both. Under registry.lock.
 *
 * Returns: 0; -EAGAIN without a refusal; -ENOENT when there is no such module or function
 * or it has no image yet; -EACCES.
 */
int module_use_begin(struct broker *broker, const struct caller *caller,
		     const char *module, const char *function, struct module_use *ret_use,
		     struct refusal *refusal);

/* The same of the function whose own file it is: OBJECT_FUNCTION's token. Returns: 0;
 * -ESTALE when the image has been replaced or the module removed; -EACCES. */
int module_use_begin_token(struct broker *broker, const struct caller *caller,
			   struct token function, struct module_use *ret_use,
			   struct refusal *refusal);

/* Ends it; takes registry.lock. */
void module_use_end(struct broker *broker, struct module_use *use);

/* Lets go of an image: the last one has it unloaded and frees it. Takes registry.lock. */
void module_put_image(struct broker *broker, struct image *image);

/*
 * Asks the worker for a function by name. done: 0 when it is there now; -ENOENT when
 * there is none, or nothing is loaded; -ESTALE, -EINTR, -EIO, -ENOMEM. Nothing is written
 * to the journal.
 */
void module_look_up(struct broker *broker, struct token module, const char *name,
		    struct wait *wait);

/* ---- the tree ---- */

/* mkdir. Under registry.lock. Returns: 0; -EEXIST, -ENOMEM. */
int module_create(struct broker *broker, const char *name, struct owner *owner,
		  struct token *ret_token, struct refusal *refusal);

/* rmdir. With registry.lock held, let go of. Returns: 0; -ENOENT, -EPERM, -EBUSY. */
int module_remove(struct broker *broker, const char *name, const struct caller *caller,
		  struct refusal *refusal);

/* Writes `device`. Under registry.lock. Returns: 0; -EPERM, -EBUSY, -EINVAL, -ENOENT. */
int module_store_device(struct broker *broker, struct module *module,
			const struct caller *caller, const char *value,
			struct refusal *refusal);

/* The end: the workers are gone. */
void modules_free(struct broker *broker);

/* `params`, `log` and `attributes`: see broker_ask(). */
void module_ask_log(struct broker *broker, struct token module,
		    const struct caller *caller, struct wait *wait);
void function_ask_params(struct broker *broker, struct token function,
			 const struct caller *caller, struct wait *wait);
void function_ask_attributes(struct broker *broker, struct token function,
			     const struct caller *caller, struct wait *wait);

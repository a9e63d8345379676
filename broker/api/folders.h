/* SPDX-License-Identifier: MIT */
/* Names in folders of allocations and of modules, for the view. All under registry.lock.
 */
#pragma once

#include "api/broker.h"

struct folder;
struct owner;
struct refusal;
struct registry;

/* The folder of `in`, as broker_find() takes it. NULL: it is gone, or no folder. */
struct folder *folder_in(struct registry *registry, enum object_type type,
			 struct token in);

/* The full name, also of what is not there, for `errors`. */
struct full_name folder_name_in(struct registry *registry, enum object_type type,
				struct name_in at);

/* Returns: 0; -ENOENT. */
int folder_look_up(struct registry *registry, enum object_type type, struct token in,
		   const char *name, struct object_ref *ret_object);

/* mkdir: a folder of allocations, or a module. As broker_create(), with a refusal. */
int folder_make_name(struct broker *broker, enum object_type type, struct name_in at,
		     mode_t mode, const struct caller *caller, struct owner *owner,
		     struct object_ref *ret_object, struct refusal *refusal);

/* rmdir. Releases the lock. As broker_remove(), with a refusal. */
int folder_remove_name(struct broker *broker, enum object_type type, struct name_in at,
		       const struct caller *caller, struct refusal *refusal);

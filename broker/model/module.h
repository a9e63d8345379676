/* SPDX-License-Identifier: MIT */
/*
 * Modules: a name and the image loaded last.
 *
 * A new module is empty. Its image (cubin, fatbin or PTX, in a sealed memfd) comes and
 * goes as a whole: a new image replaces the old image once it has loaded. Each user of an
 * image holds a reference, so a launch that was queued earlier still uses the old image.
 * The release of the last reference unloads the image. The functions of an image are
 * objects with tokens of their own, which end when the image is replaced.
 *
 * An image may be loaded again in each process of its owner's worker. All these processes
 * know the image by `wire_id`; `made_epoch` is the epoch of the process that has it now.
 *
 * All under the registry's lock, except made_epoch, which belongs to the worker.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/hash.h"
#include "model/folder.h"

struct image;
struct module;
struct owner;
struct records;
struct registry;

#define FUNCTIONS_AT_ONCE 256 /* added or freed, before others have the lock */
#define FUNCTION_NAME_MAX 255 /* longest shown name: a name in a directory */

/* Offset and size of a parameter in the kernel's parameter block, in bytes. */
struct param {
	uint32_t offset, size;
};

struct function {
	char *name;	 /* as in the module */
	uint64_t id;	 /* never reused */
	char *shown;	 /* name of its directory, see function_show_name() */
	uint32_t index;	 /* the worker's number for the function */
	bool has_params; /* the driver knows the parameters */
	uint32_t n_params;
	struct param *params; /* in the order of the kernel's own parameters */
	struct image *image;
	uint64_t charged;      /* bytes of SHARE_NAMES, of the image's owner; in the
				  image's */
	uint32_t record, text; /* model/save_module.h; 0: none */

	uint32_t slot, slot_generation;
	UT_hash_handle hh; /* key: shown */
};

struct image {
	uint32_t wire_id;
	uint32_t device;
	uint32_t made_epoch; /* of the worker process that knows the image; 0: none yet */
	uint32_t n_refs;
	struct owner *owner;   /* is charged */
	struct module *module; /* module that shows the image; NULL: not yet loaded, or
				  replaced */
	int fd;		       /* sealed; closed elsewhere */
	uint64_t size;
	uint64_t serial; /* of two images being loaded, the later serial stays */
	bool enumerated; /* functions holds all functions; else only functions found by
			    name */
	uint32_t n_functions; /* visible in the folder functions/ */
	struct function *functions;
	uint64_t charged;	 /* bytes of SHARE_NAMES, for all functions */
	bool withdrawn;		 /* replaced, or its module removed: gets no more
				    functions, and the tokens of the others have ended */
	struct records *records; /* model/save_module.h; NULL: none */
	uint32_t record;
	uint32_t made_for; /* record of the image's module */
};

struct module {
	uint64_t id;
	struct entry entry; /* its name */
	struct owner *owner;
	gid_t gid;
	uint16_t mode;	       /* rw bits */
	uint16_t folder_mode;  /* rwx bits, if it becomes a folder */
	struct folder *folder; /* it has become this folder; NULL: it is a module */
	uint32_t device;
	int64_t created_s;
	int64_t loaded_s;    /* 0: never */
	struct image *image; /* NULL: nothing loaded; holds a reference */
	uint64_t n_serials;  /* serials of images, ever given */
	uint64_t settled;    /* serial of the last image whose load has ended */
	uint32_t n_loads;    /* images announced (kernels/load.h) and being loaded */
	uint32_t n_launches; /* launches under way; while there are any, rmdir is EBUSY */
	int32_t failed;	     /* errno of the last load; 0: success, or no load so far */
	char *log;	     /* the compiler's log of the last load; NULL: none */
	uint64_t log_charged;	 /* bytes of SHARE_LOGS */
	struct records *records; /* model/save_module.h; NULL: none */
	uint32_t record, log_text;

	uint32_t slot, slot_generation;
};

/* Returns: 0; -EEXIST; -EDQUOT; -ENOMEM. */
int module_new(struct module **ret_module, struct registry *registry,
	       struct folder *folder, const char *name, struct owner *owner);
/* The module must have no image, load or launch. */
struct module *module_free(struct registry *registry, struct module *module);

/* The name with the folders above it. */
struct full_name module_name(const struct module *module);

/*
 * Finds a module by its full name, as the caller may look it up. NULL: refused, with
 * -ENOENT, -EACCES, -ENOTDIR or -EISDIR.
 */
struct module *module_find(struct registry *registry, const char *name,
			   const struct caller *caller, struct refusal *refusal);

/* The module of an entry; NULL: it is a folder's, or there is none. */
struct module *module_of(struct entry *entry);

/* The module of a token. NULL: it is gone, or has become a folder. */
struct module *module_get(const struct registry *registry, struct token token);

/* The module leaves the tree and the counts, and becomes the folder; or comes back. */
void module_become(struct registry *registry, struct module *module,
		   struct folder *folder);
void module_unbecome(struct registry *registry, struct module *module);

/* Puts a restored module into the tree and the counts. Returns: 0; -EEXIST, -ENOMEM. */
int module_place(struct registry *registry, struct module *module, struct folder *folder,
		 const char *name, uint32_t place);

/*
 * Takes over the log; NULL: none. If the owner's share is used up, the module's log says
 * so in its place.
 */
void module_set_log(struct module *module, char *log);

/* Whether the module can move to another device: no image is loaded or being loaded. */
bool module_is_fresh(const struct module *module);

/*
 * Makes an image with one reference, the caller's. The image owns only its functions: the
 * caller of image_free() closes fd, and then gives back SHARE_LOADED and the descriptor.
 *
 * Returns: 0; -ENOMEM.
 */
int image_new(struct image **ret_image, struct registry *registry, struct module *module,
	      int fd, uint64_t size);

/* Makes an image of the last broker, with its module's reference. NULL: no memory. */
struct image *image_remake(struct registry *registry, const struct module *module, int fd,
			   uint64_t size);

struct image *image_ref(struct image *image);
/* Returns: true for the last reference; the caller then unloads and frees the image. */
bool image_unref(struct image *image);

/*
 * The end of an image without references, which no module shows: image_end_names(), then
 * image_free_some() until it has freed all functions, so that others may have the lock in
 * between, then image_free(). Alone, image_free() does all of it.
 */
/* Its owner is not charged for names any more. */
void image_end_names(struct image *image);
/* Returns: whether no function is left. */
bool image_free_some(struct registry *registry, struct image *image);
struct image *image_free(struct registry *registry, struct image *image);

/*
 * Adds a function and copies params. has_params is false when the driver can't tell the
 * parameters.
 *
 * Returns: 0; -EEXIST when the image has the shown name already; -EDQUOT beyond the share
 * of the image's owner; -ENOMEM.
 */
int image_add_function(struct function **ret_function, struct registry *registry,
		       struct image *image, const char *name, uint32_t index,
		       bool has_params, const struct param *params, uint32_t n_params);

/* Adds a function of the last broker. Returns: as image_add_function(). */
int image_remake_function(struct function **ret_function, struct registry *registry,
			  struct image *image, const char *name,
			  const struct param *params, uint32_t n_params,
			  struct token token);

/* Finds a function by shown or full name. NULL: not found. */
struct function *image_find_function(const struct image *image, const char *name);

/*
 * Replaces the module's image by `image` (NULL: none) and takes over its reference. The
 * functions of the old image end.
 * Returns: the old image, with its reference; NULL.
 */
struct image *module_set_image(struct module *module, struct image *image);

/* A function of the current image. NULL: the function has ended. */
struct function *function_get(const struct registry *registry, uint32_t slot,
			      uint32_t generation);

/*
 * Makes the directory name of a function: the function's name, if valid as a file name;
 * else the first 240 bytes, with `_` for each invalid byte, then `~` and a hash of the
 * whole name.
 */
void function_show_name(const char *name, char ret_shown[FUNCTION_NAME_MAX + 1]);

/* SPDX-License-Identifier: MIT */
/*
 * Modules: a name, and the image that was loaded for it last.
 *
 * A module is made empty. Its image (cubin, fatbin or PTX, in a sealed memfd) comes and
 * goes as a whole: a new one takes the old one's place once it has loaded. Whoever uses
 * an image holds a reference, so a launch that was queued before goes on with the old
 * one; the last to let go has it unloaded. The functions of an image are objects of their
 * own, known by tokens, which end when the image is replaced.
 *
 * An image may be loaded in any run of its owner's worker, again and again: `wire_id` is
 * what all of them call it, `made_epoch` the run that knows it.
 *
 * All under the registry's lock, except made_epoch, which is the worker's.
 */
#pragma once

#include <sys/types.h>

#include <uthash.h>

#include "base/def.h"

struct image;
struct module;
struct owner;
struct registry;

#define FUNCTION_NAME_MAX 255 /* of what is shown: a name in a directory */

/* Where a parameter stands in the kernel's block of them, in bytes. */
struct param {
	uint32_t offset, size;
};

struct function {
	char *name;	 /* as in the module */
	uint64_t id;	 /* never used again */
	char *shown;	 /* what its directory is called, see function_show_name() */
	uint32_t index;	 /* what the worker calls it */
	bool has_params; /* the driver could tell them */
	uint32_t n_params;
	struct param *params; /* in the order of the kernel's own parameters */
	struct image *image;

	uint32_t slot, slot_generation;
	UT_hash_handle hh; /* by shown */
};

struct image {
	uint32_t wire_id;
	uint32_t device;
	uint32_t made_epoch; /* of the worker that was told of it; 0: none yet */
	uint32_t n_refs;
	struct owner *owner;
	struct module *module; /* whose it is now; NULL: not yet, or not any more */
	int fd;		       /* sealed; not closed here */
	uint64_t size;
	uint64_t serial; /* of two that load, the later one stays */
	bool enumerated; /* functions are all there are; else those asked for by name */
	uint32_t n_functions; /* that can be seen */
	struct function *functions;
	bool withdrawn; /* they can't be seen any more */
};

struct module {
	uint64_t id;
	char *name;
	struct owner *owner;
	gid_t gid;
	uint16_t mode; /* rw bits */
	uint32_t device;
	int64_t created_s;
	int64_t loaded_s;    /* 0: never */
	struct image *image; /* NULL: none has been loaded; holds a reference */
	uint64_t n_serials;  /* of images, ever dealt */
	uint64_t settled;    /* the last one whose load has ended */
	uint32_t n_loads;    /* images on their way */
	uint32_t n_launches; /* under way; rmdir is EBUSY meanwhile */
	int32_t failed; /* errno of the last load; 0: it went well, or there was none */
	char *log;	/* the compiler's words about the last load; NULL: none */

	uint32_t slot, slot_generation;
	UT_hash_handle hh;
};

/* Returns: 0; -EEXIST; -ENOMEM. */
int module_new(struct module **ret_module, struct registry *registry, const char *name,
	       struct owner *owner);
/* Nothing uses it: no image, no load, no launch. */
struct module *module_free(struct registry *registry, struct module *module);
struct module *module_find(const struct registry *registry, const char *name);

/* Whether it can be given a new device: none was loaded yet and none is on its way. */
bool module_is_fresh(const struct module *module);

/*
 * An image on its way, with one reference, which is the caller's. It owns nothing but
 * its functions: fd is closed by whoever frees it.
 *
 * Returns: 0; -ENOMEM.
 */
int image_new(struct image **ret_image, struct registry *registry, struct module *module,
	      int fd, uint64_t size);

struct image *image_ref(struct image *image);
/* Returns: true when that was the last: the caller frees it, and has it unloaded. */
bool image_unref(struct image *image);
struct image *image_free(struct registry *registry, struct image *image);

/*
 * Adds a function; params are copied. One that the driver can't tell has has_params
 * false.
 *
 * Returns: 0; -EEXIST when that name is there already; -ENOMEM.
 */
int image_add_function(struct function **ret_function, struct registry *registry,
		       struct image *image, const char *name, uint32_t index,
		       bool has_params, const struct param *params, uint32_t n_params);

/* By the name shown or by the whole name. NULL: there is none. */
struct function *image_find_function(const struct image *image, const char *name);

/*
 * Gives the module an image, whose reference it takes (NULL: none), instead of the one it
 * had, whose functions end. Returns: that one, whose reference is now the caller's; NULL.
 */
struct image *module_set_image(struct registry *registry, struct module *module,
			       struct image *image);

/* A function that can be seen. NULL: it has gone. */
struct function *function_get(const struct registry *registry, uint32_t slot,
			      uint32_t generation);

/*
 * What a function's directory is called: its name, if that can be a name in a directory;
 * else the first 240 bytes of it, with `_` in place of what can't stand there, `~` and a
 * hash of the whole name.
 */
void function_show_name(const char *name, char ret_shown[FUNCTION_NAME_MAX + 1]);

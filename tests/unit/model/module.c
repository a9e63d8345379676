/* SPDX-License-Identifier: MIT */
#include "model/module.h"
#include "base/def.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/save_module.h"
#include "model/shares.h"
#include "record/records.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct registry registry;
static struct owner *alice;

static void start(void)
{
	registry_init(&registry);
	alice = owner_get(&registry, 1000, 100);
}

static void stop(void)
{
	registry_deinit(&registry);
}

TestSuite(module, .init = start, .fini = stop);

static struct module *make(const char *name)
{
	struct module *module = NULL;

	cr_assert(eq(int,
		     module_new(&module, &registry, &registry.module_root, name, alice),
		     0));
	return module;
}

static struct image *make_image(struct module *module)
{
	struct image *image = NULL;

	cr_assert(eq(int, image_new(&image, &registry, module, -1, 100), 0));
	return image;
}

static struct function *add(struct image *image, const char *name)
{
	struct function *function = NULL;

	cr_assert(eq(int,
		     image_add_function(&function, &registry, image, name,
					image->n_functions, true, NULL, 0),
		     0));
	return function;
}

/* Frees an image without a descriptor. */
static void image_over(struct image *image)
{
	share_give(image->owner, SHARE_LOADED, image->size);
	share_give(image->owner, SHARE_DESCRIPTORS, 1);
	image_free(&registry, image);
}

static void put(struct image *image)
{
	if (image && image_unref(image))
		image_over(image);
}

static void drop(struct module *module)
{
	put(module_set_image(module, NULL));
	module_free(&registry, module);
}

/* A name has up to 64 KiB, a module 65536 functions. */
Test(module, names_of_functions_are_charged_to_the_owner)
{
	static char name[60001];
	struct module *module = make("m");
	struct image *image = make_image(module);
	struct function *function;
	unsigned int n = 0;
	int r = 0;

	memset(name, 'x', 60000);
	while (r == 0 && n < 10000) {
		snprintf(name, 7, "%06u", n);
		name[6] = 'x';
		r = image_add_function(&function, &registry, image, name, n, true, NULL,
				       0);
		n += r == 0;
	}
	cr_expect(eq(int, r, -EDQUOT));
	cr_expect(lt(u32, n, (256u << 20) / 60000));
	cr_expect(gt(u32, n, (256u << 20) / 62000));
	put(image);
	cr_expect(eq(u64, alice->shares.held[SHARE_NAMES], 0));
	module_free(&registry, module);
}

Test(module, functions_of_all_owners_of_a_range_have_slots)
{
	struct module *module = make("m");
	struct image *image = make_image(module);
	struct function *function;
	unsigned int n = 0;
	char name[16];

	do
		snprintf(name, sizeof(name), "%u", n);
	while (image_add_function(&function, &registry, image, name, n, true, NULL, 0) ==
		       0 &&
	       ++n < SLOTS_MAX);
	cr_expect(lt(u32, n, SLOTS_MAX / OWNERS_OF_RANGE));
	cr_expect(gt(u32, n, 200000));
	put(image);
	module_free(&registry, module);
}

static char *log_of(size_t size)
{
	char *log = malloc(size);

	cr_assert(ne(ptr, log, NULL));
	memset(log, 'x', size - 1);
	log[size - 1] = '\0';
	return log;
}

Test(module, logs_of_an_owner_have_so_many_bytes)
{
	struct module *modules[3] = { make("a"), make("b"), make("c") };

	for (size_t i = 0; i < ARRAY_SIZE(modules); i++)
		module_set_log(modules[i], log_of((size_t)32 << 20));
	cr_assert(eq(u64, alice->shares.held[SHARE_LOGS], 64 << 20));
	cr_assert(eq(str, modules[2]->log,
		     "the log is not kept: uid 1000 has 64 MiB of logs of modules and "
		     "asks for 32 MiB more: the limit is 64 MiB\n"));
	module_set_log(modules[0], NULL);
	module_set_log(modules[2], log_of((size_t)32 << 20));
	cr_assert(eq(ptr, modules[0]->log, NULL));
	cr_assert(eq(sz, strlen(modules[2]->log), (32 << 20) - 1));
	for (size_t i = 0; i < ARRAY_SIZE(modules); i++)
		module_free(&registry, modules[i]);
	cr_assert(eq(u64, alice->shares.held[SHARE_LOGS], 0));
}

Test(module, images_of_an_owner_have_so_many_bytes)
{
	struct module *module = make("m");
	struct image *image, *small;

	cr_assert(
		eq(int, image_new(&image, &registry, module, -1, (uint64_t)4 << 30), 0));
	cr_assert(eq(int, image_new(&small, &registry, module, -1, 1), -EDQUOT));
	put(image);
	put(make_image(module));
	cr_assert(eq(u64, alice->shares.held[SHARE_LOADED], 0));
	cr_assert(eq(u64, alice->shares.held[SHARE_DESCRIPTORS], 0));
	drop(module);
}

Test(module, name_is_taken_once)
{
	struct module *module = make("m"), *other;

	cr_assert(eq(int,
		     module_new(&other, &registry, &registry.module_root, "m", alice),
		     -EEXIST));
	cr_assert(eq(ptr, module_of(folder_find(&registry.module_root, "m")), module));
	cr_assert(eq(u64, registry.n_modules, 1));
	drop(module);
	cr_assert(eq(ptr, module_of(folder_find(&registry.module_root, "m")), NULL));
	cr_assert(eq(u64, registry.n_modules, 0));
	drop(make("m"));
}

Test(module, functions_are_found_by_name_and_token)
{
	struct module *module = make("m");
	struct image *image = make_image(module);
	struct function *f = add(image, "f"), *g = add(image, "g");

	/* The new image counts only once its load has succeeded. */
	cr_assert(eq(ptr, function_get(&registry, f->slot, f->slot_generation), NULL));
	cr_assert(eq(ptr, module_set_image(module, image), NULL));
	cr_assert(eq(ptr, image_find_function(image, "f"), f));
	cr_assert(eq(ptr, image_find_function(image, "g"), g));
	cr_assert(eq(ptr, image_find_function(image, "h"), NULL));
	cr_assert(eq(ptr, function_get(&registry, g->slot, g->slot_generation), g));
	cr_assert(ne(u64, f->id, g->id));
	drop(module);
}

Test(module, functions_of_a_replaced_image_end_and_stay_for_who_holds_it)
{
	struct module *module = make("m");
	struct image *old = make_image(module), *new;
	struct function *f = add(old, "f");
	uint32_t slot = f->slot, generation = f->slot_generation;

	module_set_image(module, old);
	image_ref(old);
	new = make_image(module);
	add(new, "f");
	cr_assert(eq(ptr, module_set_image(module, new), old));
	cr_assert(not(image_unref(old)));
	cr_assert(eq(ptr, function_get(&registry, slot, generation), NULL));
	cr_assert(eq(str, f->name, (char *)"f"));
	put(old);
	drop(module);
}

Test(module, numbers_of_images_are_never_dealt_twice)
{
	struct module *module = make("m");
	struct image *first = make_image(module), *second = make_image(module);

	cr_assert(ne(u32, first->wire_id, second->wire_id));
	cr_assert(first->wire_id && second->wire_id);
	cr_assert(lt(u64, first->serial, second->serial));
	registry.n_wire_images = UINT32_MAX;
	put(first);
	first = make_image(module);
	cr_assert(eq(u32, first->wire_id, 1));
	put(first);
	put(second);
	drop(module);
}

Test(module, same_name_twice_in_an_image_is_refused)
{
	struct module *module = make("m");
	struct image *image = make_image(module);
	struct function *function;

	add(image, "f");
	cr_assert(
		eq(int,
		   image_add_function(&function, &registry, image, "f", 1, true, NULL, 0),
		   -EEXIST));
	cr_assert(eq(u32, image->n_functions, 1));
	put(image);
	drop(module);
}

Test(module, params_are_copied)
{
	struct module *module = make("m");
	struct image *image = make_image(module);
	struct param params[] = { { 0, 4 }, { 8, 8 } };
	struct function *function;

	cr_assert(eq(
		int,
		image_add_function(&function, &registry, image, "f", 0, true, params, 2),
		0));
	memset(params, 0xff, sizeof(params));
	cr_assert(eq(u32, function->n_params, 2));
	cr_assert(eq(u32, function->params[1].offset, 8));
	put(image);
	drop(module);
}

Test(module, shown_names_can_stand_in_a_directory)
{
	static const char *const odd[] = { "", ".", "..", "a/b", "a b", "\n", "\xff" };
	char shown[FUNCTION_NAME_MAX + 1], other[FUNCTION_NAME_MAX + 1];
	char name[FUNCTION_NAME_MAX + 3];

	function_show_name("_Z5saxpyjfPKfPf", shown);
	cr_assert(eq(str, shown, (char *)"_Z5saxpyjfPKfPf"));
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		function_show_name(odd[i], shown);
		cr_expect(strlen(shown) >= 15 && !strpbrk(shown, "/ \n\xff"), "%s",
			  shown);
	}
	memset(name, 'k', sizeof(name));
	name[FUNCTION_NAME_MAX] = '\0';
	function_show_name(name, shown);
	cr_assert(eq(str, shown, name));
	name[FUNCTION_NAME_MAX] = 'k';
	name[FUNCTION_NAME_MAX + 1] = '\0';
	function_show_name(name, shown);
	cr_assert(eq(sz, strlen(shown), FUNCTION_NAME_MAX));
	cr_assert(eq(int, shown[240], '~'));
	name[FUNCTION_NAME_MAX] = 'x';
	function_show_name(name, other);
	cr_assert(ne(str, shown, other));
}

Test(module, long_name_is_found_whole_and_as_shown)
{
	struct module *module = make("m");
	struct image *image = make_image(module);
	char name[400], shown[FUNCTION_NAME_MAX + 1];
	struct function *function;

	memset(name, 'k', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	function = add(image, name);
	function_show_name(name, shown);
	cr_assert(eq(str, function->shown, shown));
	cr_assert(eq(ptr, image_find_function(image, name), function));
	cr_assert(eq(ptr, image_find_function(image, shown), function));
	put(image);
	drop(module);
}

Test(module, is_fresh_until_it_is_loaded_or_loads)
{
	struct module *module = make("m");

	cr_assert(module_is_fresh(module));
	module->n_loads++;
	cr_assert(not(module_is_fresh(module)));
	module->n_loads--;
	module_set_image(module, make_image(module));
	cr_assert(not(module_is_fresh(module)));
	drop(module);
}

/* ---- the next broker ---- */

/* sscanf(3) measures all of the text for each number. */
int __wrap___isoc99_sscanf(const char *string, const char *format, ...);

int __wrap___isoc99_sscanf(const char *string, const char *format, ...)
{
	(void)string;
	(void)format;
	cr_fatal("many parameters take too long");
}

/* Makes the module and its image, to be ended with end(). */
static struct image *make_whole(struct registry *where, struct module **ret_module)
{
	struct owner *owner = owner_get(where, 1000, 100);
	struct image *image;

	cr_assert(eq(int, module_new(ret_module, where, &where->module_root, "m", owner),
		     0));
	cr_assert(eq(int, image_new(&image, where, *ret_module, -1, 100), 0));
	cr_assert(eq(ptr, module_set_image(*ret_module, image), NULL));
	return image;
}

static void end(struct registry *where, struct module *module)
{
	struct image *image = module_set_image(module, NULL);

	cr_assert(image_unref(image));
	image_free(where, image);
	module_free(where, module);
}

Test(module, the_next_broker_has_the_parameters_of_functions)
{
	enum { N = 1000 };
	struct registry next;
	struct records *records;
	struct module *module, *module_again;
	struct image *image = make_whole(&registry, &module), *image_again;
	struct function *function;
	struct function_record record;
	struct param params[N];

	for (uint32_t i = 0; i < N; i++)
		params[i] = (struct param){ UINT32_MAX - i, i };
	cr_assert(eq(int, records_new(&records), 0));
	image->records = records;
	image->record = 1;
	cr_assert(eq(
		int,
		image_add_function(&function, &registry, image, "f", 0, true, params, N),
		0));
	function_to_record(function, &record);

	registry_init(&next);
	image_again = make_whole(&next, &module_again);
	next.records = records;
	cr_assert(eq(int, function_restore(&next, image_again, function->record, &record),
		     0));
	function = image_find_function(image_again, "f");
	cr_assert(eq(u32, function->n_params, N));
	for (uint32_t i = 0; i < N; i++) {
		cr_expect(eq(u32, function->params[i].offset, UINT32_MAX - i));
		cr_expect(eq(u32, function->params[i].size, i));
	}
	/* The record is the first one's. */
	function->record = function->text = 0;
	next.records = NULL;
	image->record = 0;
	end(&next, module_again);
	end(&registry, module);
	registry_deinit(&next);
	records_free(records);
}

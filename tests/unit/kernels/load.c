/* SPDX-License-Identifier: MIT */
/*
 * Loading modules from an honest worker and from a worker that tells the lies of liar.c.
 * After a lie the worker is ended and the broker goes on.
 */
#include "unit/broker_help.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/attribute.h"
#include "api/upload.h"
#include "base/refusal.h"
#include "kernels/module_use.h"
#include "model/access.h"
#include "model/module.h"
#include "model/object.h"
#include "model/registry.h"

static struct broker *broker;

static void start(void)
{
	broker = broker_start("64M", NULL);
}

static void stop(void)
{
	broker_end(broker);
}

TestSuite(load, .init = start, .fini = stop, .timeout = 60);

static struct token module_make(const char *name)
{
	struct token token;

	cr_assert(eq(int, object_make(broker, OBJECT_MODULE, name, &token), 0));
	return token;
}

/* The same with a lie. */
static int image_lie(struct token module, const char *lie)
{
	char text[128];

	snprintf(text, sizeof(text), "// lie: %s\n.version 7.0\n", lie);
	return image_write(broker, module, text);
}

static const struct attribute *attribute_named(enum object_type type, const char *name)
{
	const struct attribute_table *table = &attribute_tables[type];

	for (size_t i = 0; i < table->n; i++)
		if (!strcmp(table->rows[i].name, name))
			return &table->rows[i];
	fprintf(stderr, "no attribute %s\n", name);
	abort();
}

static void expect_shown(enum object_type type, struct token token, const char *name,
			 const char *expected)
{
	const struct attribute *attribute = attribute_named(type, name);
	_cleanup_text_ struct text text = TEXT_INIT;
	struct answer answer;

	if (attribute->flags & ATTRIBUTE_ASKED) {
		broker_ask(broker, token, attribute, &nobody_special,
			   answer_expect(&answer));
		cr_assert(eq(int, answer_get(&answer), 0));
		text_add(&text, answer.bytes, MIN(answer.length, sizeof(answer.bytes)));
	} else {
		cr_assert(eq(int, broker_show(broker, type, token, attribute, &text), 0));
	}
	cr_assert(eq(str, (char *)text_string(&text), (char *)expected));
}

static int find(struct token module, const char *name, struct token *ret_token)
{
	return object_find(broker, OBJECT_FUNCTION, module, name, ret_token);
}

static uint64_t restarts(void)
{
	uint64_t n;

	pthread_mutex_lock(&broker->registry->lock);
	n = broker->processes->restarts;
	pthread_mutex_unlock(&broker->registry->lock);
	return n;
}

Test(load, truth_is_believed)
{
	struct token module = module_make("m"), function;

	cr_assert(eq(int, image_lie(module, "none"), 0));
	expect_shown(OBJECT_MODULE, module, "state", "loaded\n");
	expect_shown(OBJECT_MODULE, module, "log", "");
	cr_assert(eq(int, find(module, "f", &function), 0));
	expect_shown(OBJECT_FUNCTION, function, "name", "f\n");
	expect_shown(OBJECT_FUNCTION, function, "params", "0 0 4\n1 8 8\n");
	cr_assert(eq(int, find(module, "g", &function), -ENOENT));
	cr_assert(eq(u64, restarts(), 0));
}

Test(load, lies_about_functions_end_the_worker)
{
	static const char *const lies[] = { "fewer",   "garbage", "half",
					    "million", "more",	  "twice" };
	struct token module = module_make("m"), function;

	cr_assert(eq(int, image_lie(module, "none"), 0));
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		cr_expect(eq(int, image_lie(module, lies[i]), -EIO), "%s", lies[i]);
		for (int n = 0; n < 5000 && restarts() < i + 1; n++)
			usleep(1000);
		cr_expect(eq(u64, restarts(), i + 1), "%s", lies[i]);
	}
	/* The module loaded before the lies still exists, and is loaded again on use. */
	cr_assert(eq(int, find(module, "f", &function), 0));
	expect_shown(OBJECT_MODULE, module, "state", "loaded\n");
	cr_assert(eq(int, image_lie(module, "none"), 0));
}

Test(load, names_that_lead_elsewhere_are_shown_otherwise)
{
	struct token module = module_make("m"), function;
	struct listing listing;

	cr_assert(eq(int, image_lie(module, "path"), 0));
	cr_assert(eq(sz,
		     broker_list(broker, OBJECT_FUNCTION, module, &nobody_special, 0,
				 &listing, 1),
		     1));
	cr_assert(eq(ptr, strpbrk(listing.name, "/\n"), NULL));
	cr_assert(eq(int, find(module, listing.name, &function), 0));
}

/* Offsets of a listing lead to functions, not to places: see function_behind(). */
Test(load, a_listing_ends_with_the_image_it_began_with)
{
	struct token module = module_make("m");
	struct listing listing[3];

	cr_assert(eq(int, image_lie(module, "two"), 0));
	cr_assert(eq(sz,
		     broker_list(broker, OBJECT_FUNCTION, module, &nobody_special, 0,
				 listing, 1),
		     1));
	cr_assert(eq(sz,
		     broker_list(broker, OBJECT_FUNCTION, module, &nobody_special,
				 listing[0].next, &listing[1], 2),
		     1));
	cr_assert(eq(str, listing[0].name, "f"));
	cr_assert(eq(str, listing[1].name, "g"));
	cr_assert(eq(int, image_lie(module, "two"), 0));
	cr_assert(eq(sz,
		     broker_list(broker, OBJECT_FUNCTION, module, &nobody_special,
				 listing[0].next, listing, 3),
		     0));
}

Test(load, log_is_shown_without_its_escapes)
{
	struct token module = module_make("m");

	cr_assert(eq(int, image_lie(module, "escapes"), 0));
	expect_shown(OBJECT_MODULE, module, "log", "one\n\\x1b[2Jtwo\n");
	cr_assert(eq(int, image_lie(module, "long-log"), 0));
	expect_shown(OBJECT_MODULE, module, "state", "loaded\n");
}

/* The words come from a worker, and the sentence is for terminals. */
Test(load, words_about_a_fault_are_shown_without_their_escapes)
{
	static const struct {
		const char *lie, *sentence;
	} rows[] = {
		{ "word-escapes", "): \\x1b[2Jat 0x10\\x09x\n" },
		{ "word-long", "): xxxxxxxx" },
		{ "word-nowhere", "): at 0x\n" },
		{ "word-overflow", "): at 0xfffffffffffffffffffffffff\n" },
	};
	struct token module = module_make("m");

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_text_ struct text text = TEXT_INIT;
		const char *last;

		cr_assert(eq(int, image_lie(module, rows[i].lie), 0));
		cr_assert(eq(
			int,
			command_say(broker, "launch", "m f grid=1 block=1 u32:1 u64:1"),
			-EFAULT));
		broker_errors(broker, &nobody_special, &text);
		last = strstr(text_string(&text), "kernel m/f failed");
		for (const char *at = last; at; at = strstr(at + 1, "kernel m/f failed"))
			last = at;
		cr_assert(ne(ptr, (void *)last, NULL));
		cr_assert(ne(ptr, strstr(last, rows[i].sentence), NULL), "%s", last);
	}
}

static int look_up(struct token module, const char *name)
{
	struct answer answer;

	module_look_up(broker, module, name, answer_expect(&answer));
	return answer_get(&answer);
}

Test(load, functions_are_asked_for_by_name_where_the_driver_cannot_tell)
{
	struct token module = module_make("m"), function;

	cr_assert(eq(int, image_lie(module, "by-name"), 0));
	cr_assert(eq(int, find(module, "g", &function), -EAGAIN));
	cr_assert(eq(int, look_up(module, "g"), 0));
	cr_assert(eq(int, find(module, "g", &function), 0));
	expect_shown(OBJECT_FUNCTION, function, "name", "g\n");
	cr_assert(eq(int, look_up(module, "g"), 0));
}

Test(load, another_function_than_was_asked_for_ends_the_worker)
{
	struct token module = module_make("m"), function;

	cr_assert(eq(int, image_lie(module, "another"), 0));
	cr_assert(eq(int, look_up(module, "g"), -EIO));
	cr_assert(eq(int, find(module, "g", &function), -EAGAIN));
	cr_assert(eq(int, find(module, "another", &function), -EAGAIN));
}

Test(load, use_keeps_the_image_that_it_began_with)
{
	struct token module = module_make("m");
	struct refusal refusal;
	struct module_use use;

	cr_assert(eq(int, image_lie(module, "none"), 0));
	pthread_mutex_lock(&broker->registry->lock);
	cr_assert(eq(int,
		     module_use_begin(broker, &nobody_special, "m", "f", &use, &refusal),
		     0));
	pthread_mutex_unlock(&broker->registry->lock);
	cr_assert(eq(int, image_lie(module, "path"), 0));
	cr_assert(
		eq(int,
		   broker_remove(broker, OBJECT_MODULE, TOKEN_NONE, "m", &nobody_special),
		   -EBUSY));
	cr_assert(eq(str, use.function->name, (char *)"f"));
	cr_assert(ne(ptr, use.image, use.module->image));
	module_use_over(broker, &use);
	cr_assert(
		eq(int,
		   broker_remove(broker, OBJECT_MODULE, TOKEN_NONE, "m", &nobody_special),
		   0));
}

static int use_error(const struct caller *caller, const char *module,
		     const char *function)
{
	struct refusal refusal = { 0 };
	struct module_use use;
	int r;

	pthread_mutex_lock(&broker->registry->lock);
	r = module_use_begin(broker, caller, module, function, &use, &refusal);
	pthread_mutex_unlock(&broker->registry->lock);
	if (r == 0)
		module_use_over(broker, &use);
	else if (r != -EAGAIN)
		cr_assert(gt(sz, strlen(refusal.sentence), 10));
	return r;
}

Test(load, use_is_refused_to_others_and_of_what_is_not_there)
{
	static const struct caller other = { .uid = 1001, .gid = 1001, .pid = 1 };
	static const struct caller root = { .pid = 1 };
	struct token module = module_make("m");

	cr_assert(eq(int, use_error(&nobody_special, "n", "f"), -ENOENT));
	cr_assert(eq(int, use_error(&nobody_special, "m", "f"), -ENOENT));
	cr_assert(eq(int, image_lie(module, "none"), 0));
	cr_assert(eq(int, use_error(&nobody_special, "m", "f"), 0));
	cr_assert(eq(int, use_error(&nobody_special, "m", "g"), -ENOENT));
	cr_assert(eq(int, use_error(&other, "m", "f"), -EACCES));
	cr_assert(eq(int, use_error(&root, "m", "f"), 0));
	cr_assert(eq(int, image_lie(module, "by-name"), 0));
	cr_assert(eq(int, use_error(&nobody_special, "m", "f"), -EAGAIN));
}

Test(load, nothing_is_loaded_twice_by_a_second_close)
{
	struct token module = module_make("m");
	struct answer answer;
	struct upload *upload;
	const struct image *first;

	cr_assert(eq(int,
		     upload_new(&upload, broker, OBJECT_MODULE, module, &nobody_special),
		     0));
	cr_assert(eq(int, upload_write(upload, 42, 0, ".version 7.0\n", 13), 0));
	upload_flush(upload, 42, answer_expect(&answer));
	cr_assert(eq(int, answer_get(&answer), 0));
	first = module_of(folder_find(&broker->registry->module_root, "m"))->image;
	upload_flush(upload, 42, answer_expect(&answer));
	cr_assert(eq(int, answer_get(&answer), 0));
	cr_assert(eq(ptr,
		     (void *)module_of(folder_find(&broker->registry->module_root, "m"))
			     ->image,
		     (void *)first));
	upload_free(upload);
}

Test(load, descriptor_of_a_removed_module_is_stale)
{
	struct token module = module_make("m");
	struct answer answer;
	struct upload *upload;

	cr_assert(eq(int,
		     upload_new(&upload, broker, OBJECT_MODULE, module, &nobody_special),
		     0));
	cr_assert(eq(int, upload_write(upload, 42, 0, ".version 7.0\n", 13), 0));
	cr_assert(
		eq(int,
		   broker_remove(broker, OBJECT_MODULE, TOKEN_NONE, "m", &nobody_special),
		   0));
	upload_flush(upload, 42, answer_expect(&answer));
	cr_assert(eq(int, answer_get(&answer), -ESTALE));
	upload_free(upload);
}

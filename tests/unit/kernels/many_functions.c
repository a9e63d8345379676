/* SPDX-License-Identifier: MIT */
/*
 * An image may have very many functions. Others have the lock while these come and go.
 * The linker puts these functions in front of the lock's, and of those that add and free
 * a function.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/upload.h"
#include "base/handle_table.h"
#include "base/refusal.h"
#include "model/module.h"
#include "model/object.h"
#include "model/owner.h"
#include "model/registry.h"
#include "unit/broker_help.h"

#define N	    600
#define N_AT_A_TIME 260

static struct broker *broker, *watched;		 /* watched: atomic */
static unsigned int n_added, n_freed, most_held; /* registry.lock */
static __thread unsigned int n_held;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
void __real_registry_let_others(struct registry *registry);
void __wrap_registry_let_others(struct registry *registry);
int __real_image_add_function(struct function **ret_function, struct registry *registry,
			      struct image *image, const char *name, uint32_t index,
			      bool has_params, const struct param *params,
			      uint32_t n_params);
int __wrap_image_add_function(struct function **ret_function, struct registry *registry,
			      struct image *image, const char *name, uint32_t index,
			      bool has_params, const struct param *params,
			      uint32_t n_params);
void __real_handle_table_remove(struct handle_table *table, uint32_t slot);
void __wrap_handle_table_remove(struct handle_table *table, uint32_t slot);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	const struct broker *now = __atomic_load_n(&watched, __ATOMIC_ACQUIRE);

	if (now && mutex == &now->registry->lock)
		n_held = 0;
	return __real_pthread_mutex_lock(mutex);
}

/* Half an image is in the gap: no module shows it. */
void __wrap_registry_let_others(struct registry *registry)
{
	const struct module *module = module_of(folder_find(&registry->module_root, "m"));

	if (module && module->image)
		cr_expect(eq(u32, module->image->n_functions, N));
	__real_registry_let_others(registry);
	n_held = 0;
}

int __wrap_image_add_function(struct function **ret_function, struct registry *registry,
			      struct image *image, const char *name, uint32_t index,
			      bool has_params, const struct param *params,
			      uint32_t n_params)
{
	n_added++;
	most_held = MAX(most_held, ++n_held);
	return __real_image_add_function(ret_function, registry, image, name, index,
					 has_params, params, n_params);
}

void __wrap_handle_table_remove(struct handle_table *table, uint32_t slot)
{
	const struct broker *now = __atomic_load_n(&watched, __ATOMIC_ACQUIRE);

	if (now && table == &now->registry->functions) {
		n_freed++;
		most_held = MAX(most_held, ++n_held);
	}
	__real_handle_table_remove(table, slot);
}

/* Loads an image of N functions. */
static void load(struct token module)
{
	cr_assert(
		eq(int, image_write(broker, module, "// lie: many\n.version 7.0\n"), 0));
}

static __thread unsigned int n_printed;

int __wrap_snprintf(char *string, size_t size, const char *format, ...) _printf_(3, 4);

int __wrap_snprintf(char *string, size_t size, const char *format, ...)
{
	va_list args;
	int r;

	n_printed++;
	va_start(args, format);
	r = vsnprintf(string, size, format, args);
	va_end(args);
	return r;
}

static struct token module;

static void start(void)
{
	broker = broker_start("64M", NULL);
	__atomic_store_n(&watched, broker, __ATOMIC_RELEASE);
	cr_assert(eq(int, object_make(broker, OBJECT_MODULE, "m", &module), 0));
	load(module);
}

static void stop(void)
{
	broker_end(broker);
}

TestSuite(many_functions, .init = start, .fini = stop, .timeout = 60);

static void expect_freed(unsigned int n)
{
	broker_settle(broker);
	cr_expect(eq(uint, n_freed, n));
	cr_expect(le(uint, most_held, N_AT_A_TIME));
}

static int remove_module(void)
{
	return broker_remove(broker, OBJECT_MODULE, TOKEN_NONE, "m", &nobody_special);
}

Test(many_functions, others_have_the_lock_while_they_are_added)
{
	cr_expect(eq(uint, n_added, N));
	cr_expect(le(uint, most_held, N_AT_A_TIME));
}

Test(many_functions, others_have_the_lock_when_the_module_is_removed)
{
	struct owner *owner = owner_find(broker->registry, nobody_special.uid);
	struct token function;

	cr_assert(eq(int, object_find(broker, OBJECT_FUNCTION, module, "f599", &function),
		     0));
	cr_assert(eq(int, remove_module(), 0));
	/* What is told of at once. The bytes are charged until they are free. */
	pthread_mutex_lock(&broker->registry->lock);
	cr_expect(eq(u64, owner->shares.held[SHARE_NAMES], 0));
	cr_expect(eq(ptr,
		     function_get(broker->registry, function.slot, function.generation),
		     NULL));
	pthread_mutex_unlock(&broker->registry->lock);
	expect_freed(N);
	cr_expect(eq(u64, owner->shares.held[SHARE_LOADED], 0));
}

Test(many_functions, others_have_the_lock_when_the_image_is_replaced)
{
	struct token old, new;

	cr_assert(eq(int, object_find(broker, OBJECT_FUNCTION, module, "f599", &old), 0));
	load(module);
	expect_freed(N);
	cr_assert(eq(int, object_find(broker, OBJECT_FUNCTION, module, "f599", &new), 0));
	cr_expect(ne(u32, old.generation + old.slot * N, new.generation + new.slot *N));
}

Test(many_functions, others_have_the_lock_when_the_last_launch_ends)
{
	struct refusal refusal;
	struct module_use use;

	pthread_mutex_lock(&broker->registry->lock);
	cr_assert(eq(int,
		     module_use_begin(broker, &nobody_special, "m", "f7", &use, &refusal),
		     0));
	pthread_mutex_unlock(&broker->registry->lock);
	load(module);
	cr_expect(eq(str, use.function->name, (char *)"f7"));
	expect_freed(0);
	module_use_over(broker, &use);
	expect_freed(N);
}

/* Whoever names a function that is not there gets the name in C++, if there is one. */
Test(many_functions, name_that_is_not_there_is_made_once)
{
	struct refusal refusal;
	struct module_use use;

	pthread_mutex_lock(&broker->registry->lock);
	n_printed = 0;
	cr_assert(
		eq(int,
		   module_use_begin(broker, &nobody_special, "m", "add", &use, &refusal),
		   -ENOENT));
	cr_expect(lt(uint, n_printed, 10));
	pthread_mutex_unlock(&broker->registry->lock);
}

/* SPDX-License-Identifier: MIT */
/*
 * What is done under the lock for a module of very many functions, or a function of very
 * many parameters, does not grow with them.
 */
#include "kernels/module_use.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/refusal.h"
#include "base/text.h"
#include "model/module.h"
#include "model/registry.h"
#include "unit/broker_help.h"

#define N_PARAMS    100
#define N_FUNCTIONS 1000

static struct broker *broker;
static struct module *module;
static struct image *image;
static unsigned int n_numbers, n_locked;

void __real_text_add_number(struct text *text, uint64_t number);
void __wrap_text_add_number(struct text *text, uint64_t number);

void __wrap_text_add_number(struct text *text, uint64_t number)
{
	n_numbers++;
	if (pthread_mutex_trylock(&broker->registry->lock) == 0)
		pthread_mutex_unlock(&broker->registry->lock);
	else
		n_locked++;
	__real_text_add_number(text, number);
}

static struct function *add(const char *name, const struct param *params, uint32_t n)
{
	struct function *function;

	cr_assert(eq(int,
		     image_add_function(&function, broker->registry, image, name,
					image->n_functions, true, params, n),
		     0));
	return function;
}

static void start(void)
{
	struct token token;

	broker = broker_start("64M", NULL);
	cr_assert(eq(int, object_make(broker, OBJECT_MODULE, "m", &token), 0));
	pthread_mutex_lock(&broker->registry->lock);
	module = module_get(broker->registry, token);
	cr_assert(eq(int, image_new(&image, broker->registry, module, -1, 100), 0));
	image->enumerated = true;
	pthread_mutex_unlock(&broker->registry->lock);
}

static void stop(void)
{
	broker_end(broker);
}

TestSuite(module_use, .init = start, .fini = stop, .timeout = 60);

/* The sentence for a launch of `add`, which the module lacks. */
static void launch_add(struct refusal *refusal)
{
	struct module_use use;

	cr_assert(eq(ptr, module_set_image(module, image), NULL));
	pthread_mutex_lock(&broker->registry->lock);
	cr_assert(eq(int,
		     module_use_begin(broker, &nobody_special, "m", "add", &use, refusal),
		     -ENOENT));
	pthread_mutex_unlock(&broker->registry->lock);
}

Test(module_use, a_name_of_cxx_among_the_first_is_a_hint)
{
	struct refusal refusal;

	add("other", NULL, 0);
	add("_Z3addPfS_i", NULL, 0);
	launch_add(&refusal);
	cr_expect(ne(ptr,
		     strstr(refusal.sentence, "it has _Z3addPfS_i: C++ changes names"),
		     NULL));
}

Test(module_use, a_hint_costs_a_look_at_a_few)
{
	struct refusal refusal;
	char name[16];

	for (int i = 0; i < N_FUNCTIONS; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		add(name, NULL, 0);
	}
	add("_Z3addPfS_i", NULL, 0);
	launch_add(&refusal);
	cr_expect(ne(ptr, strstr(refusal.sentence, "it has f0 and 1000 more"), NULL));
}

Test(module_use, parameters_are_printed_without_the_lock)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	struct param params[N_PARAMS];
	const struct function *function;

	for (uint32_t i = 0; i < N_PARAMS; i++)
		params[i] = (struct param){ 4 * i, 4 };
	function = add("many", params, N_PARAMS);
	cr_assert(eq(ptr, module_set_image(module, image), NULL));
	n_numbers = n_locked = 0;
	cr_assert(eq(int,
		     function_print_params(
			     broker,
			     (struct token){ function->slot, function->slot_generation },
			     &text),
		     0));
	cr_expect(eq(uint, n_numbers, 3 * N_PARAMS));
	cr_expect(eq(uint, n_locked, 0));
	cr_expect(ne(ptr, strstr(text_string(&text), "\n99 396 4\n"), NULL));
}

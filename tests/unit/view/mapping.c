/* SPDX-License-Identifier: MIT */
/* The linker puts the kernel and the broker of this test in the place of the real ones.
 */
#include "mapping.h"

#include "view.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <sys/eventfd.h>

TestSuite(mapping, .timeout = 60);

static int answer; /* of the kernel: an id or -errno */
static unsigned int n_asked, n_closed;
static uint32_t noted; /* of the memory; 0: none */
static bool is_freed;

bool __wrap_kernel_can_map(void);
int __wrap_backing_open(int fd);
void __wrap_backing_close(uint32_t backing);
int __wrap_broker_host_fd(struct broker *broker, struct token token);
uint32_t __wrap_broker_backing(struct broker *broker, struct token token);
int __wrap_broker_note_backing(struct broker *broker, struct token token,
			       uint32_t backing);

bool __wrap_kernel_can_map(void)
{
	return true;
}

int __wrap_backing_open(int fd)
{
	(void)fd;
	n_asked++;
	return answer;
}

void __wrap_backing_close(uint32_t backing)
{
	n_closed += backing == 7;
}

int __wrap_broker_host_fd(struct broker *broker, struct token token)
{
	(void)broker;
	(void)token;
	return eventfd(0, EFD_CLOEXEC);
}

uint32_t __wrap_broker_backing(struct broker *broker, struct token token)
{
	(void)broker;
	(void)token;
	return noted;
}

int __wrap_broker_note_backing(struct broker *broker, struct token token,
			       uint32_t backing)
{
	(void)broker;
	(void)token;
	noted = is_freed ? 0 : backing;
	return is_freed ? -ESTALE : 0;
}

Test(mapping, failure_of_one_open_is_not_that_of_the_next)
{
	static struct view view;
	const struct token x = { 1, 1 };

	mappings_init(&view.mappings);
	answer = -ENOMEM;
	cr_expect(eq(int, mapping_get(&view, x), -ENOMEM));
	answer = 7;
	cr_expect(eq(int, mapping_get(&view, x), 7));
	mappings_deinit(&view.mappings);
}

Test(mapping, kernel_without_the_call_is_asked_once)
{
	static struct view view;

	mappings_init(&view.mappings);
	answer = -EPERM;
	for (uint32_t slot = 1; slot < 4; slot++)
		cr_expect(eq(int, mapping_get(&view, (struct token){ slot, 1 }), 0));
	cr_expect(eq(uint, n_asked, 1));
	mappings_deinit(&view.mappings);
}

Test(mapping, number_is_the_same_at_each_open)
{
	static struct view view;
	const struct token x = { 1, 1 };

	mappings_init(&view.mappings);
	answer = 7;
	cr_expect(eq(int, mapping_get(&view, x), 7));
	answer = 8;
	cr_expect(eq(int, mapping_get(&view, x), 7));
	cr_expect(eq(uint, n_asked, 1));
	mappings_deinit(&view.mappings);
}

Test(mapping, number_of_memory_freed_meanwhile_is_taken_back)
{
	static struct view view;

	mappings_init(&view.mappings);
	answer = 7;
	is_freed = true;
	cr_expect(eq(int, mapping_get(&view, (struct token){ 1, 1 }), -ESTALE));
	cr_expect(eq(uint, n_closed, 1));
	mappings_deinit(&view.mappings);
}

/* SPDX-License-Identifier: MIT */
/* The linker puts the kernel and the broker of this test in the place of the real ones.
 */
#include "mapping.h"

#include "kernel.h"
#include "view.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <sys/eventfd.h>

TestSuite(mapping, .timeout = 60);

static int answer; /* of the kernel: an id or -errno */
static unsigned int n_asked;

bool __wrap_kernel_can_map(void);
int __wrap_kernel_backing_open(fuse_req_t req, int fd);
void __wrap_kernel_backing_close(fuse_req_t req, int id);
int __wrap_broker_host_fd(struct broker *broker, struct token token);

bool __wrap_kernel_can_map(void)
{
	return true;
}

int __wrap_kernel_backing_open(fuse_req_t req, int fd)
{
	(void)req;
	(void)fd;
	n_asked++;
	return answer;
}

void __wrap_kernel_backing_close(fuse_req_t req, int id)
{
	(void)req;
	(void)id;
}

int __wrap_broker_host_fd(struct broker *broker, struct token token)
{
	(void)broker;
	(void)token;
	return eventfd(0, EFD_CLOEXEC);
}

Test(mapping, failure_of_one_open_is_not_that_of_the_next)
{
	static struct view view;
	const struct token x = { 1, 1 };

	mappings_init(&view.mappings);
	answer = -ENOMEM;
	cr_expect(eq(int, mapping_get(&view, NULL, x), -ENOMEM));
	answer = 7;
	cr_expect(eq(int, mapping_get(&view, NULL, x), 7));
	mapping_put(&view, NULL, x);
	mappings_deinit(&view.mappings);
}

Test(mapping, kernel_without_the_call_is_asked_once)
{
	static struct view view;

	mappings_init(&view.mappings);
	answer = -EPERM;
	for (uint32_t slot = 1; slot < 4; slot++)
		cr_expect(
			eq(int, mapping_get(&view, NULL, (struct token){ slot, 1 }), 0));
	cr_expect(eq(uint, n_asked, 1));
	mappings_deinit(&view.mappings);
}

/* SPDX-License-Identifier: MIT */
/* Mappings; reads and writes of mapped memory. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "scene.h"

TestSuite(worker, .timeout = 120);

Test(worker, what_is_written_is_read_back)
{
	struct scene scene;

	scene_start(&scene, "");
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	noise(wanted, sizeof(wanted), 1);
	cr_assert(eq(int, put(&scene, 0, BASE + 4096, wanted, sizeof(wanted)), 0));
	expect_bytes(&scene, 0, BASE + 4096, sizeof(wanted));
	scene_stop(&scene);
}

Test(worker, new_memory_reads_as_zeros)
{
	struct scene scene;

	scene_start(&scene, "");
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	memset(wanted, 0, sizeof(wanted));
	expect_bytes(&scene, 0, BASE, sizeof(wanted));
	scene_stop(&scene);
}

Test(worker, memory_outlives_the_worker_at_the_same_address)
{
	struct scene scene, next;
	struct wire_request request = { .op = WIRE_MAP,
					.address = BASE,
					.length = CHUNK };
	int fd;

	scene_start(&scene, "");
	fd = physical_new(&scene, 0, CHUNK);
	cr_assert(eq(int, fixture_ask(&scene.fixture, request, dup(fd), NULL), 0));
	noise(wanted, sizeof(wanted), 2);
	cr_assert(eq(int, put(&scene, 0, BASE, wanted, sizeof(wanted)), 0));
	channel_kill(scene.fixture.channel);
	fixture_wait_end(&scene.fixture);
	fixture_stop(&scene.fixture);

	scene_start_as(&next, (struct channel_config){ .name = "mover", .mover = true });
	cr_assert(eq(int, fixture_ask(&next.fixture, request, fd, NULL), 0));
	expect_bytes(&next, 0, BASE, sizeof(wanted));
	scene_stop(&next);
	cuda_driver_free(scene.driver);
}

Test(worker, address_can_be_used_again_after_unmap)
{
	struct scene scene;
	uint8_t byte;

	scene_start(&scene, "");
	for (unsigned int i = 0; i < 3; i++) {
		cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
		cr_assert(eq(int, get(&scene, 0, BASE, &byte, 1), 0));
		cr_assert(eq(int, byte, 0));
		cr_assert(eq(int, put(&scene, 0, BASE, "x", 1), 0));
		cr_assert(eq(int, unmap(&scene, 0, BASE, CHUNK), 0));
	}
	cr_assert(eq(int, unmap(&scene, 0, BASE, CHUNK), EINVAL));
	scene_stop(&scene);
}

Test(worker, unmap_of_half_a_mapping_is_refused)
{
	struct scene scene;

	scene_start(&scene, "");
	cr_assert(eq(int, map(&scene, 0, BASE, 2 * CHUNK, 0), 0));
	cr_assert(eq(int, unmap(&scene, 0, BASE, CHUNK), EINVAL));
	cr_assert(eq(int, unmap(&scene, 0, BASE + CHUNK, CHUNK), EINVAL));
	cr_assert(eq(int, unmap(&scene, 0, BASE, 2 * CHUNK), 0));
	scene_stop(&scene);
}

Test(worker, use_follows_its_mapping_without_waiting)
{
	struct question questions[2];
	struct scene scene;

	scene_start(&scene, "");
	question_ask(
		&questions[0], &scene.fixture,
		(struct wire_request){ .op = WIRE_MAP, .address = BASE, .length = CHUNK },
		physical_new(&scene, 0, CHUNK));
	question_ask(&questions[1], &scene.fixture,
		     transfer(WIRE_READ, 0, BASE, CHUNK / 2, 0), -1);
	for (unsigned int i = 0; i < ARRAY_SIZE(questions); i++) {
		question_wait(&questions[i]);
		cr_assert(eq(int, questions[i].reply.error, 0));
	}
	scene_stop(&scene);
}

Test(worker, unmapped_address_is_an_error_that_names_the_call)
{
	struct wire_reply reply;
	struct scene scene;

	scene_start(&scene, "");
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	cr_assert(eq(int,
		     fixture_ask(&scene.fixture,
				 transfer(WIRE_READ, 0, BASE + 64 * CHUNK, 4096, 0), -1,
				 &reply),
		     EINVAL));
	cr_assert(eq(str, (char *)cuda_call_name(reply.call), "cuMemcpyDtoHAsync_v2"));
	cr_assert(eq(int, reply.result, CUDA_ERROR_INVALID_VALUE));
	cr_assert(eq(int, put(&scene, 0, BASE, "x", 1), 0));
	scene_stop(&scene);
}

Test(worker, mapping_at_a_bad_address_is_refused)
{
	struct scene scene;

	scene_start(&scene, "");
	cr_assert(ne(int, map(&scene, 0, BASE + 4096, CHUNK, 0), 0));
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	cr_assert(ne(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	cr_assert(eq(int, put(&scene, 0, BASE, "x", 1), 0));
	scene_stop(&scene);
}

Test(worker, descriptor_that_is_no_memory_is_refused)
{
	struct scene scene;

	scene_start(&scene, "");
	cr_assert(
		ne(int,
		   fixture_ask(&scene.fixture,
			       (struct wire_request){
				       .op = WIRE_MAP, .address = BASE, .length = CHUNK },
			       memfd_create("no", MFD_CLOEXEC), NULL),
		   0));
	scene_stop(&scene);
}

Test(worker, device_that_is_not_there_is_refused)
{
	struct scene scene;

	scene_start(&scene, "");
	cr_assert(
		eq(int,
		   ask(&scene, (struct wire_request){ .op = WIRE_MEMORY, .device = 15 }),
		   ENODEV));
	scene_stop(&scene);
}

Test(worker, read_only_mapping_refuses_writes)
{
	struct scene scene;

	scene_start(&scene, "");
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, WIRE_READ_ONLY), 0));
	memset(wanted, 0, sizeof(wanted));
	expect_bytes(&scene, 0, BASE, 4096);
	cr_assert(ne(int, put(&scene, 0, BASE, "x", 1), 0));
	scene_stop(&scene);
}

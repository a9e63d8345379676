/* SPDX-License-Identifier: MIT */
/* Drivers that fail and processes that end. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>

#include "scene.h"

Test(worker, lost_context_is_answered_to_everything_after)
{
	struct wire_reply reply;
	struct scene scene;

	scene_start(&scene, "fail=cuMemcpyHtoDAsync_v2@2=CUDA_ERROR_ILLEGAL_ADDRESS");
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	cr_assert(eq(int, put(&scene, 0, BASE, "x", 1), 0));
	cr_assert(eq(int, put(&scene, 0, BASE, "x", 1), EFAULT));
	cr_assert(eq(int, map(&scene, 0, BASE + CHUNK, CHUNK, 0), EFAULT));
	cr_assert(eq(int,
		     fixture_ask(&scene.fixture,
				 (struct wire_request){ .op = WIRE_MEMORY }, -1, &reply),
		     EFAULT));
	cr_assert(eq(str, (char *)cuda_call_name(reply.call), "cuMemcpyHtoDAsync_v2"));
	cr_assert(eq(int, reply.result, CUDA_ERROR_ILLEGAL_ADDRESS));
	scene_stop(&scene);
}

Test(worker, worker_killed_in_a_call_is_noticed)
{
	struct scene scene;
	struct question question;

	scene_start(&scene, "kill=cuMemcpyHtoDAsync_v2@1");
	question_ask(&question, &scene.fixture, transfer(WIRE_WRITE, 0, BASE, 1, 0), -1);
	question_wait(&question);
	cr_assert(question.lost);
	scene_expect_end(&scene, "was killed by signal 9");
}

/* After an answer without a wait, the next request would read bytes not yet written. */
Test(worker, failure_to_wait_is_no_answer)
{
	struct scene scene;

	scene_start(&scene, "fail=cuStreamSynchronize@2=CUDA_ERROR_OUT_OF_MEMORY:"
			    "delay=cuMemcpyHtoDAsync_v2@2=300ms");
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	noise(wanted, 4096, 1);
	cr_assert(eq(int, put(&scene, 0, BASE, "x", 1), 0));
	cr_assert(eq(int, put(&scene, 0, BASE, wanted, 4096), 0));
	expect_bytes(&scene, 0, BASE, 4096);
	scene_stop(&scene);
}

Test(worker, worker_that_can_not_wait_ends)
{
	struct scene scene;
	struct question question;

	scene_start(&scene, "fail=cuStreamSynchronize@1+=CUDA_ERROR_OUT_OF_MEMORY");
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	question_ask(&question, &scene.fixture, transfer(WIRE_WRITE, 0, BASE, 1, 0), -1);
	question_wait(&question);
	cr_assert(question.lost);
	cr_assert(ne(str, (char *)fixture_wait_end(&scene.fixture), "was stopped"));
	fixture_stop(&scene.fixture);
	cuda_driver_free(scene.driver);
}

Test(worker, missing_driver_shows_as_the_end)
{
	struct scene scene;

	settings_set("");
	scene_start_as(&scene,
		       (struct channel_config){ .name = "mover",
						.mover = true,
						.driver = "/nowhere/libcuda.so.1" });
	scene_expect_end(&scene, "can't work: No such file or directory");
}

Test(worker, address_range_that_is_not_granted_shows_as_the_end)
{
	struct scene scene;

	scene_start(&scene, "fail=cuMemAddressReserve@1=CUDA_ERROR_OUT_OF_MEMORY");
	scene_expect_end(
		&scene,
		"can't work: cuMemAddressReserve failed: CUDA_ERROR_OUT_OF_MEMORY");
}

Test(worker, failed_mapping_leaves_the_address_free)
{
	struct scene scene;

	scene_start(&scene, "fail=cuMemMap@1=CUDA_ERROR_UNKNOWN:"
			    "fail=cuMemSetAccess@1=CUDA_ERROR_NOT_SUPPORTED");
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), EIO));
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), EOPNOTSUPP));
	cr_assert(eq(int, unmap(&scene, 0, BASE, CHUNK), EINVAL));
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	cr_assert(eq(int, put(&scene, 0, BASE, "x", 1), 0));
	scene_stop(&scene);
}

/* The staging area is registered first, so the second registration fails here. */
Test(worker, failed_registration_leaves_the_address_free)
{
	struct scene scene;
	uint8_t *memory;

	scene_start(&scene, "fail=cuMemHostRegister_v2@2=CUDA_ERROR_OUT_OF_MEMORY");
	cr_assert(eq(int,
		     map_host(&scene, WIRE_HOST_BASE, CHUNK, host_new(CHUNK, &memory)),
		     ENOMEM));
	cr_assert(eq(int,
		     map_host(&scene, WIRE_HOST_BASE, CHUNK, host_new(CHUNK, &memory)),
		     0));
	scene_stop(&scene);
}

/* Starts an owner's worker. (The mover makes its contexts before the answer to HELLO.) */
static void start_own(struct scene *scene, const char *extra)
{
	if (!driver_is_soft())
		cr_skip("only the software GPU can be told: %s", extra);
	settings_set(extra);
	scene_start_as(scene, (struct channel_config){
				      .name = "own", .uid = getuid(), .gid = getgid() });
}

Test(worker, failed_context_is_made_at_the_next_use)
{
	struct scene scene;

	start_own(&scene, "fail=cuDevicePrimaryCtxRetain@1=CUDA_ERROR_UNKNOWN");
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), EIO));
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	scene_stop(&scene);
}

Test(worker, context_waits_a_moment_for_memory)
{
	struct scene scene;

	start_own(&scene, "fail=cuDevicePrimaryCtxRetain@1=CUDA_ERROR_OUT_OF_MEMORY");
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	scene_stop(&scene);
}

Test(worker, context_does_not_wait_for_ever)
{
	struct scene scene;

	start_own(&scene, "fail=cuDevicePrimaryCtxRetain@1+=CUDA_ERROR_OUT_OF_MEMORY");
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), ENOMEM));
	scene_stop(&scene);
}

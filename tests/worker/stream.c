/* SPDX-License-Identifier: MIT */
/* Streams, and concurrent requests. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>

#include "scene.h"

static int stream_ask(struct scene *scene, uint32_t op, unsigned int device, uint32_t id)
{
	return ask(scene,
		   (struct wire_request){ .op = op, .device = device, .stream = id });
}

Test(worker, streams_are_made_and_unmade)
{
	struct scene scene;

	scene_start(&scene, "");
	cr_assert(eq(int, stream_ask(&scene, WIRE_STREAM_CREATE, 0, 1), 0));
	cr_assert(eq(int, stream_ask(&scene, WIRE_STREAM_CREATE, 0, 1), EEXIST));
	cr_assert(eq(int, stream_ask(&scene, WIRE_STREAM_DESTROY, 0, 2), EINVAL));
	cr_assert(eq(int, stream_ask(&scene, WIRE_STREAM_DESTROY, 0, 1), 0));
	cr_assert(eq(int, stream_ask(&scene, WIRE_STREAM_DESTROY, 0, 1), EINVAL));
	scene_stop(&scene);
}

Test(worker, use_of_a_stream_that_is_not_there_is_refused)
{
	struct wire_request request = transfer(WIRE_READ, 0, BASE, 1, 0);
	struct scene scene;

	scene_start(&scene, "");
	request.stream = 9;
	cr_assert(eq(int, ask(&scene, request), EINVAL));
	scene_stop(&scene);
}

#define N_STREAMS 3000

/* The broker removes a stream as soon as the last answer has arrived. */
Test(worker, a_stream_can_go_when_its_last_request_is_answered)
{
	struct wire_request request = transfer(WIRE_READ, 0, BASE, 1, 0);
	struct scene scene;

	scene_start(&scene, "");
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	request.stream = 1;
	for (int i = 0; i < N_STREAMS; i++) {
		cr_assert(eq(int, stream_ask(&scene, WIRE_STREAM_CREATE, 0, 1), 0));
		cr_assert(eq(int, ask(&scene, request), 0));
		cr_assert(eq(int, stream_ask(&scene, WIRE_STREAM_DESTROY, 0, 1), 0),
			  "stream %d of %d", i, N_STREAMS);
	}
	scene_stop(&scene);
}

#define N_STEPS 100

/* Each step reads the result of the step before, so only the right order gives the
 * expected bytes. */
Test(worker, stream_keeps_the_order_of_its_requests)
{
	static struct question steps[N_STEPS];
	struct scene scene;
	uint32_t last;

	scene_start(&scene, "");
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	cr_assert(eq(int, stream_ask(&scene, WIRE_STREAM_CREATE, 0, 1), 0));
	cr_assert(eq(int, put(&scene, 0, BASE, &(uint32_t){ 42 }, 4), 0));
	for (unsigned int i = 0; i < N_STEPS; i++)
		question_ask(&steps[i], &scene.fixture,
			     (struct wire_request){ .op = WIRE_COPY,
						    .stream = 1,
						    .source = BASE + i * 4,
						    .address = BASE + i * 4 + 4,
						    .length = 4 },
			     -1);
	for (unsigned int i = 0; i < N_STEPS; i++) {
		question_wait(&steps[i]);
		cr_assert(eq(int, steps[i].reply.error, 0));
	}
	cr_assert(eq(int, get(&scene, 0, BASE + N_STEPS * 4, &last, 4), 0));
	cr_assert(eq(u32, last, 42));
	scene_stop(&scene);
}

#define N_TRANSFERS 400

Test(worker, many_transfers_in_flight_are_all_right)
{
	static struct question questions[N_TRANSFERS];
	struct scene scene;

	scene_start(&scene, "");
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	noise(staging_payload(&scene.fixture.staging, 0), WIRE_TRANSFER_MAX, 7);
	noise(wanted, sizeof(wanted), 7);
	for (unsigned int i = 0; i < N_TRANSFERS; i++) {
		struct wire_request request =
			transfer(WIRE_WRITE, 0, BASE + i * 1000, 1000, 0);

		request.offset += i * 1000;
		question_ask(&questions[i], &scene.fixture, request, -1);
	}
	for (unsigned int i = 0; i < N_TRANSFERS; i++) {
		question_wait(&questions[i]);
		cr_assert(eq(int, questions[i].reply.error, 0));
	}
	expect_bytes(&scene, 0, BASE, N_TRANSFERS * 1000);
	scene_stop(&scene);
}

Test(worker, mapping_is_served_while_all_threads_wait_for_the_gpu)
{
	static struct question slow[16];
	struct scene scene;

	scene_start(&scene, "delay=cuMemcpyHtoDAsync_v2@*=1s");
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	for (unsigned int i = 0; i < ARRAY_SIZE(slow); i++)
		question_ask(&slow[i], &scene.fixture,
			     transfer(WIRE_WRITE, 0, BASE + i * 4096, 4096, 0), -1);
	cr_assert(eq(int, map(&scene, 0, BASE + CHUNK, CHUNK, 0), 0));
	cr_assert(gt(u32, channel_pending(scene.fixture.channel), 10));
	for (unsigned int i = 0; i < ARRAY_SIZE(slow); i++) {
		question_wait(&slow[i]);
		cr_assert(eq(int, slow[i].reply.error, 0));
	}
	scene_stop(&scene);
}

/* The driver holds up a thread that runs its request with the turn in hand. */
Test(worker, mapping_is_served_while_a_call_of_the_driver_takes_long)
{
	struct question slow;
	struct scene scene;

	/* The thread polls if it still has the turn, else it waits at once. */
	scene_start(&scene, "delay=cuStreamQuery@1=2s:delay=cuStreamSynchronize@1=2s");
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	question_ask(&slow, &scene.fixture, transfer(WIRE_WRITE, 0, BASE, 4096, 0), -1);
	cr_assert(eq(int, map(&scene, 0, BASE + CHUNK, CHUNK, 0), 0));
	cr_assert(eq(u32, channel_pending(scene.fixture.channel), 1));
	question_wait(&slow);
	cr_assert(eq(int, slow.reply.error, 0));
	scene_stop(&scene);
}

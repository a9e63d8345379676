/* SPDX-License-Identifier: MIT */
/* Direct and async memory, which the worker itself allocates, and managed memory. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>

#include "scene.h"

static void alloc_twice(struct scene *scene, uint32_t flags, uint32_t stream)
{
	uint64_t address;

	for (unsigned int i = 0; i < 2; i++) {
		cr_assert(eq(int, alloc(scene, flags, stream, 300000, &address), 0));
		memset(wanted, 0, 300000);
		expect_bytes(scene, 0, address, 300000);
		noise(wanted, 300000, i);
		cr_assert(eq(int, put(scene, 0, address, wanted, 300000), 0));
		expect_bytes(scene, 0, address, 300000);
		cr_assert(eq(int, free_memory(scene, flags, stream, address), 0));
	}
}

Test(worker, own_memory_is_zeroed_each_time)
{
	struct scene scene;

	scene_start(&scene, "");
	alloc_twice(&scene, 0, 0);
	scene_stop(&scene);
}

Test(worker, stream_ordered_memory_is_zeroed_each_time)
{
	struct scene scene;

	scene_start(&scene, "");
	alloc_twice(&scene, WIRE_ASYNC, 0);
	cr_assert(eq(int,
		     ask(&scene,
			 (struct wire_request){ .op = WIRE_STREAM_CREATE, .stream = 3 }),
		     0));
	alloc_twice(&scene, WIRE_ASYNC, 3);
	scene_stop(&scene);
}

/* ---- managed memory ---- */

#define MANAGED_SIZE (6u << 20)

static uint64_t managed_new(struct scene *scene)
{
	uint64_t address = 0;

	cr_assert(eq(int, alloc(scene, WIRE_MANAGED, 0, MANAGED_SIZE, &address), 0));
	return address;
}

/* Returns: the placement at address; the length of the range that shares it. */
static uint64_t range_of(struct scene *scene, uint64_t address, uint64_t length,
			 uint64_t *ret_length)
{
	struct wire_reply reply;

	cr_assert(eq(int,
		     fixture_ask(&scene->fixture,
				 (struct wire_request){ .op = WIRE_RANGE,
							.address = address,
							.length = length },
				 -1, &reply),
		     0));
	*ret_length = reply.value[1];
	return reply.value[0];
}

static int advise(struct scene *scene, uint64_t address, uint64_t length, uint32_t advice,
		  uint16_t location)
{
	return ask(scene, (struct wire_request){ .op = WIRE_ADVISE,
						 .address = address,
						 .length = length,
						 .advice = advice,
						 .location = location });
}

static int prefetch(struct scene *scene, uint64_t address, uint64_t length,
		    uint16_t location)
{
	return ask(scene, (struct wire_request){ .op = WIRE_PREFETCH,
						 .address = address,
						 .length = length,
						 .location = location });
}

Test(worker, managed_memory_reads_as_zeros_also_where_some_was_before)
{
	struct scene scene;

	scene_start(&scene, "");
	alloc_twice(&scene, WIRE_MANAGED, 0);
	alloc_twice(&scene, WIRE_MANAGED | WIRE_ATTACH_HOST, 0);
	scene_stop(&scene);
}

Test(worker, managed_memory_is_advised_and_says_so)
{
	const uint16_t device = location_make(LOCATION_DEVICE, 0);
	const uint16_t cpu = location_make(LOCATION_CPU, 0);
	struct scene scene;
	uint64_t address, length, value;

	scene_start(&scene, "");
	address = managed_new(&scene);
	value = range_of(&scene, address, MANAGED_SIZE, &length);
	cr_assert(eq(u64, value, 0));
	cr_assert(eq(u64, length, MANAGED_SIZE));
	cr_assert(eq(int, advise(&scene, address, MANAGED_SIZE, WIRE_SET_READ_MOSTLY, 0),
		     0));
	cr_assert(eq(int,
		     advise(&scene, address, MANAGED_SIZE, WIRE_SET_PREFERRED_LOCATION,
			    device),
		     0));
	cr_assert(eq(int,
		     advise(&scene, address, MANAGED_SIZE, WIRE_SET_ACCESSED_BY, cpu),
		     0));
	cr_assert(eq(int, prefetch(&scene, address, MANAGED_SIZE, cpu), 0));
	value = range_of(&scene, address, MANAGED_SIZE, &length);
	cr_assert(ne(u64, value & WIRE_RANGE_READ_MOSTLY, 0));
	cr_assert(eq(u32, WIRE_RANGE_PREFERRED(value), device));
	cr_assert(eq(u32, WIRE_RANGE_ACCESSED_BY(value), LOCATION_SET_CPU));
	cr_assert(eq(u32, WIRE_RANGE_PREFETCHED(value), cpu));
	cr_assert(eq(u64, length, MANAGED_SIZE));
	cr_assert(eq(int,
		     advise(&scene, address, MANAGED_SIZE, WIRE_UNSET_READ_MOSTLY, 0),
		     0));
	cr_assert(eq(
		int,
		advise(&scene, address, MANAGED_SIZE, WIRE_UNSET_PREFERRED_LOCATION, 0),
		0));
	cr_assert(eq(int,
		     advise(&scene, address, MANAGED_SIZE, WIRE_UNSET_ACCESSED_BY, cpu),
		     0));
	value = range_of(&scene, address, MANAGED_SIZE, &length);
	cr_assert(eq(u64, value, (uint64_t)cpu << 16));
	scene_stop(&scene);
}

/* The request does not say where ranges end: the worker has to find their ends. */
Test(worker, ranges_that_differ_are_found_page_by_page)
{
	static const uint64_t ends[] = { 40960, 81920, 100 * 4096, MANAGED_SIZE };
	const uint64_t page = (uint64_t)getpagesize();
	struct scene scene;
	uint64_t address, length, value, offset = 0;

	if (page != 4096)
		cr_skip("pages of 4096 bytes are what this test counts in");
	scene_start(&scene, "");
	address = managed_new(&scene);
	cr_assert(eq(int,
		     advise(&scene, address + ends[0], ends[1] - ends[0],
			    WIRE_SET_READ_MOSTLY, 0),
		     0));
	cr_assert(eq(int,
		     prefetch(&scene, address + ends[2], MANAGED_SIZE - ends[2],
			      location_make(LOCATION_DEVICE, 0)),
		     0));
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		while (offset < ends[i]) {
			value = range_of(&scene, address + offset, MANAGED_SIZE - offset,
					 &length);
			cr_assert(le(u64, offset + length, ends[i]));
			cr_expect(eq(int, !!(value & WIRE_RANGE_READ_MOSTLY), i == 1));
			cr_expect(eq(int, !!WIRE_RANGE_PREFETCHED(value), i == 3));
			offset += length;
		}
	}
	scene_stop(&scene);
}

Test(worker, what_is_no_managed_memory_is_refused)
{
	struct scene scene;
	uint64_t address;

	scene_start(&scene, "");
	cr_assert(eq(int, alloc(&scene, 0, 0, MANAGED_SIZE, &address), 0));
	cr_assert(ne(int, advise(&scene, address, 4096, WIRE_SET_READ_MOSTLY, 0), 0));
	cr_assert(ne(int, prefetch(&scene, address, 4096, location_make(LOCATION_CPU, 0)),
		     0));
	cr_assert(ne(int,
		     ask(&scene, (struct wire_request){ .op = WIRE_RANGE,
							.address = address,
							.length = 4096 }),
		     0));
	cr_assert(ne(int,
		     ask(&scene,
			 (struct wire_request){ .op = WIRE_ATTACH, .address = address }),
		     0));
	address = managed_new(&scene);
	cr_assert(eq(int,
		     prefetch(&scene, address, 4096, location_make(LOCATION_DEVICE, 15)),
		     ENODEV));
	scene_stop(&scene);
}

Test(worker, managed_memory_is_attached)
{
	struct wire_request request = { .op = WIRE_ATTACH };
	struct scene scene;

	scene_start(&scene, "");
	request.address = managed_new(&scene);
	cr_assert(eq(int, ask(&scene, request), 0));
	request.flags = WIRE_ATTACH_HOST;
	cr_assert(eq(int, ask(&scene, request), 0));
	request.flags = WIRE_ATTACH_STREAM;
	request.stream = 1;
	cr_assert(eq(int, ask(&scene, request), EINVAL));
	cr_assert(eq(int,
		     ask(&scene,
			 (struct wire_request){ .op = WIRE_STREAM_CREATE, .stream = 1 }),
		     0));
	cr_assert(eq(int, ask(&scene, request), 0));
	scene_stop(&scene);
}

Test(worker, freeing_what_is_not_there_is_refused)
{
	struct scene scene;

	scene_start(&scene, "");
	cr_assert(ne(int, free_memory(&scene, 0, 0, 0x1000), 0));
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	cr_assert(ne(int, free_memory(&scene, 0, 0, BASE), 0));
	scene_stop(&scene);
}

Test(worker, device_that_is_full_is_enomem)
{
	struct scene scene;
	uint64_t address;

	scene_start(&scene, "");
	cr_assert(eq(int, alloc(&scene, 0, 0, 1ull << 45, &address), ENOMEM));
	scene_stop(&scene);
}

Test(worker, memory_is_told)
{
	struct wire_reply before, after;
	struct scene scene;
	uint64_t address;

	scene_start(&scene, "");
	cr_assert(eq(int,
		     fixture_ask(&scene.fixture,
				 (struct wire_request){ .op = WIRE_MEMORY }, -1, &before),
		     0));
	cr_assert(eq(int, alloc(&scene, 0, 0, 64u << 20, &address), 0));
	cr_assert(eq(int,
		     fixture_ask(&scene.fixture,
				 (struct wire_request){ .op = WIRE_MEMORY }, -1, &after),
		     0));
	cr_assert(eq(u64, before.value[1], after.value[1]));
	cr_assert(ge(u64, before.value[0] - after.value[0], 64u << 20));
	scene_stop(&scene);
}

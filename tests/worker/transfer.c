/* SPDX-License-Identifier: MIT */
/* Copies and fills; host memory. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "scene.h"

Test(worker, copy_within_a_device)
{
	struct scene scene;

	scene_start(&scene, "");
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	noise(wanted, 100000, 3);
	cr_assert(eq(int, put(&scene, 0, BASE, wanted, 100000), 0));
	cr_assert(eq(int,
		     ask(&scene, (struct wire_request){ .op = WIRE_COPY,
							.source = BASE,
							.address = BASE + CHUNK / 2,
							.length = 100000 }),
		     0));
	expect_bytes(&scene, 0, BASE + CHUNK / 2, 100000);
	scene_stop(&scene);
}

static void copy_across(const char *settings)
{
	struct scene scene;

	scene_start(&scene, settings);
	if (scene.n_devices < 2) {
		fixture_stop(&scene.fixture);
		cr_skip("needs two devices");
	}
	cr_assert(eq(int, map(&scene, 0, BASE_OF(0), CHUNK, 0), 0));
	cr_assert(eq(int, map(&scene, 1, BASE_OF(1), CHUNK, 0), 0));
	noise(wanted, sizeof(wanted), 4);
	cr_assert(eq(int, put(&scene, 0, BASE_OF(0), wanted, sizeof(wanted)), 0));
	cr_assert(eq(int,
		     ask(&scene, (struct wire_request){ .op = WIRE_COPY,
							.device = 1,
							.address = BASE_OF(1) + 7,
							.source = BASE_OF(0),
							.length = sizeof(wanted) }),
		     0));
	expect_bytes(&scene, 1, BASE_OF(1) + 7, sizeof(wanted));
	scene_stop(&scene);
}

Test(worker, copy_across_devices)
{
	copy_across("");
}

struct pattern {
	uint64_t value;
	uint32_t size;
};

static void expect_filled(struct scene *scene, unsigned int device, uint64_t address,
			  size_t length, struct pattern pattern)
{
	for (size_t i = 0; i < length; i++)
		wanted[i] = (uint8_t)(pattern.value >> (8 * (i % pattern.size)));
	expect_bytes(scene, device, address, length);
}

static const struct pattern patterns[] = {
	{ 0, 1 },
	{ 0xab, 1 },
	{ 0xbeef, 2 },
	{ 0xabab, 2 },
	{ 0xdeadbeef, 4 },
	{ 0x12341234, 4 },
	{ 0x0123456789abcdef, 8 },
	{ 0x1111111111111111, 8 },
	{ 0x89abcdef89abcdef, 8 },
};

static void fill_all(struct scene *scene, unsigned int device, uint64_t base)
{
	static const struct {
		uint64_t offset;
		uint64_t length;
	} ranges[] = { { 0, 1 << 20 }, { 8, 8 }, { 3, 1000 }, { 1, 5 }, { 4, 131075 } };

	for (size_t i = 0; i < ARRAY_SIZE(patterns) * ARRAY_SIZE(ranges); i++) {
		struct pattern pattern = patterns[i % ARRAY_SIZE(patterns)];
		uint64_t address = base + ranges[i / ARRAY_SIZE(patterns)].offset;
		uint64_t length = ranges[i / ARRAY_SIZE(patterns)].length;
		uint8_t after[2] = { 0 };

		cr_assert(eq(int, put(scene, device, address + length, "z", 1), 0));
		cr_assert(eq(
			int,
			fill(scene, device, address, length, pattern.value, pattern.size),
			0));
		expect_filled(scene, device, address, length, pattern);
		cr_assert(eq(int, get(scene, device, address + length, after, 1), 0));
		cr_assert(eq(int, after[0], 'z'));
	}
}

Test(worker, fill_repeats_any_pattern_over_any_range)
{
	struct scene scene;

	scene_start(&scene, "");
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	fill_all(&scene, 0, BASE);
	scene_stop(&scene);
}

static int unmap_host(struct scene *scene, uint64_t address, size_t length)
{
	return ask(scene, (struct wire_request){ .op = WIRE_UNMAP_HOST,
						 .address = address,
						 .length = length });
}

Test(worker, host_memory_is_shared)
{
	struct scene scene;
	uint8_t *memory;

	scene_start(&scene, "");
	memory = host_mapped(&scene);
	noise(wanted, sizeof(wanted), 5);
	memcpy(memory, wanted, sizeof(wanted));
	expect_bytes(&scene, 0, WIRE_HOST_BASE, sizeof(wanted));
	cr_assert(eq(int, put(&scene, 0, WIRE_HOST_BASE + 9, "gpumem", 6), 0));
	cr_assert(eq(int, memcmp(memory + 9, "gpumem", 6), 0));
	fill_all(&scene, 0, WIRE_HOST_BASE);
	cr_assert(eq(int, unmap_host(&scene, WIRE_HOST_BASE, CHUNK), 0));
	cr_assert(eq(int, unmap_host(&scene, WIRE_HOST_BASE, CHUNK), EINVAL));
	scene_stop(&scene);
}

Test(worker, copy_between_host_and_device)
{
	struct scene scene;
	uint8_t *memory;

	scene_start(&scene, "");
	memory = host_mapped(&scene);
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	noise(wanted, sizeof(wanted), 6);
	memcpy(memory, wanted, sizeof(wanted));
	cr_assert(eq(int,
		     ask(&scene, (struct wire_request){ .op = WIRE_COPY,
							.source = WIRE_HOST_BASE,
							.address = BASE,
							.length = CHUNK }),
		     0));
	expect_bytes(&scene, 0, BASE, sizeof(wanted));
	cr_assert(eq(
		int,
		ask(&scene, (struct wire_request){ .op = WIRE_COPY,
						   .source = BASE,
						   .address = WIRE_HOST_BASE + CHUNK / 2,
						   .length = CHUNK / 2 }),
		0));
	cr_assert(eq(int, memcmp(memory + CHUNK / 2, wanted, CHUNK / 2), 0));
	scene_stop(&scene);
}

Test(worker, host_mapping_never_covers_another)
{
	struct scene scene;
	uint8_t *memory;

	scene_start(&scene, "");
	host_mapped(&scene);
	cr_assert(eq(
		int,
		map_host(&scene, WIRE_HOST_BASE + 4096, CHUNK, host_new(CHUNK, &memory)),
		EEXIST));
	cr_assert(eq(int,
		     map_host(&scene, WIRE_HOST_BASE + CHUNK, 2 * CHUNK,
			      host_new(CHUNK, &memory)),
		     EINVAL));
	scene_stop(&scene);
}

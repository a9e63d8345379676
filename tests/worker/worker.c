/* SPDX-License-Identifier: MIT */
/*
 * The real worker through the real link, on the driver that GPUMEM_DRIVER names.
 *
 * The test plays the broker: it makes physical memory with the driver, without a
 * context, and hands descriptors to the worker.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "cuda/driver.h"
#include "link_help.h"

#define CHUNK		(2u << 20)
#define BASE		WIRE_DEVICE_BASE
#define BASE_OF(device) (WIRE_DEVICE_BASE + (device)*WIRE_DEVICE_SPAN)
#define N_SLOTS		4
#define N_DEVICES	2

TestSuite(worker, .timeout = 120);

struct scene {
	struct fixture fixture;
	struct cuda_driver *driver;
	int n_devices;
};

/* A driver that can be told to fail; the real one is found by name. */
static bool driver_is_soft(void)
{
	return strchr(getenv("GPUMEM_DRIVER"), '/');
}

/* Devices of this test alone; extra settings of the software GPU, or "". */
static void settings_set(const char *extra)
{
	char settings[512];

	snprintf(settings, sizeof(settings),
		 "devices=%d:memory=256M:machine=worker-%d%s%s", N_DEVICES, getpid(),
		 *extra ? ":" : "", extra);
	setenv("GPUMEM_SOFTGPU", settings, 1);
}

static void scene_start_as(struct scene *scene, struct link_config config)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	int r;

	*scene = (struct scene){ 0 };
	r = cuda_driver_open(getenv("GPUMEM_DRIVER"), &scene->driver, &why);
	cr_assert(eq(int, r, 0), "%s", text_string(&why));
	CUDA(scene->driver, NULL, cuDeviceGetCount, &scene->n_devices);
	config.program = getenv("GPUMEM_WORKER");
	config.driver = config.driver ?: getenv("GPUMEM_DRIVER");
	config.n_threads = 2;
	fixture_start(&scene->fixture, config, N_SLOTS);
}

/* The worker is told more than the test's own driver, where extra is not "". */
static void scene_start(struct scene *scene, const char *extra)
{
	settings_set("");
	if (*extra)
		settings_set(extra);
	scene_start_as(scene, (struct link_config){ .name = "mover", .mover = true });
}

static void scene_stop(struct scene *scene)
{
	const char *reason;

	link_stop(scene->fixture.link, 30);
	reason = fixture_wait_end(&scene->fixture);
	cr_assert(eq(int, strcmp(reason, "was stopped"), 0), "the worker %s", reason);
	fixture_stop(&scene->fixture);
	cuda_driver_free(scene->driver);
}

/* Physical memory on a device, as a descriptor. */
static int physical_new(struct scene *scene, int device, size_t length)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device },
	};
	CUmemGenericAllocationHandle handle;
	int fd = -1;

	cr_assert(eq(int,
		     CUDA(scene->driver, NULL, cuMemCreate, &handle, length, &prop, 0),
		     0));
	cr_assert(eq(int,
		     CUDA(scene->driver, NULL, cuMemExportToShareableHandle, &fd, handle,
			  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
		     0));
	cr_assert(eq(int, CUDA(scene->driver, NULL, cuMemRelease, handle), 0));
	return fd;
}

static int ask(struct scene *scene, struct wire_request request)
{
	return fixture_ask(&scene->fixture, request, -1, NULL);
}

static int map(struct scene *scene, unsigned int device, uint64_t address,
	       uint64_t length, uint32_t flags)
{
	return fixture_ask(&scene->fixture,
			   (struct wire_request){ .op = WIRE_MAP,
						  .device = device,
						  .address = address,
						  .length = length,
						  .flags = flags },
			   physical_new(scene, (int)device, length), NULL);
}

static int unmap(struct scene *scene, unsigned int device, uint64_t address,
		 uint64_t length)
{
	return ask(scene, (struct wire_request){ .op = WIRE_UNMAP,
						 .device = device,
						 .address = address,
						 .length = length });
}

static struct wire_request transfer(uint32_t op, unsigned int device, uint64_t address,
				    uint64_t length, unsigned int slot)
{
	return (struct wire_request){ .op = op,
				      .device = device,
				      .address = address,
				      .length = length,
				      .offset = staging_offset(slot) };
}

static int put(struct scene *scene, unsigned int device, uint64_t address,
	       const void *bytes, size_t length)
{
	memcpy(staging_payload(&scene->fixture.staging, 0), bytes, length);
	return ask(scene, transfer(WIRE_WRITE, device, address, length, 0));
}

static int get(struct scene *scene, unsigned int device, uint64_t address, void *bytes,
	       size_t length)
{
	uint8_t *payload = staging_payload(&scene->fixture.staging, 1);
	int error;

	memset(payload, 0xee, length);
	error = ask(scene, transfer(WIRE_READ, device, address, length, 1));
	memcpy(bytes, payload, length);
	return error;
}

static int fill(struct scene *scene, unsigned int device, uint64_t address,
		uint64_t length, uint64_t pattern, uint32_t size)
{
	return ask(scene, (struct wire_request){ .op = WIRE_FILL,
						 .device = device,
						 .address = address,
						 .length = length,
						 .pattern = pattern,
						 .pattern_size = size });
}

static void noise(uint8_t *bytes, size_t length, unsigned int seed)
{
	for (size_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)((i * 2654435761u + seed) >> 7);
}

static uint8_t wanted[WIRE_TRANSFER_MAX];
static uint8_t found[WIRE_TRANSFER_MAX];

static void expect_bytes(struct scene *scene, unsigned int device, uint64_t address,
			 size_t length)
{
	cr_assert(eq(int, get(scene, device, address, found, length), 0));
	cr_assert(eq(int, memcmp(wanted, found, length), 0));
}

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
	link_kill(scene.fixture.link);
	fixture_wait_end(&scene.fixture);
	fixture_stop(&scene.fixture);

	scene_start_as(&next, (struct link_config){ .name = "mover", .mover = true });
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

static int map_host(struct scene *scene, uint64_t address, size_t length, int fd)
{
	return fixture_ask(&scene->fixture,
			   (struct wire_request){ .op = WIRE_MAP_HOST,
						  .address = address,
						  .length = length },
			   fd, NULL);
}

static int host_new(size_t length, uint8_t **ret_memory)
{
	int fd = memfd_create("host", MFD_CLOEXEC);

	cr_assert(eq(int, ftruncate(fd, (off_t)length), 0));
	*ret_memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert(ne(ptr, *ret_memory, MAP_FAILED));
	return fd;
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
	cr_assert(eq(int,
		     map_host(&scene, WIRE_HOST_BASE, CHUNK, host_new(CHUNK, &memory)),
		     0));
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
	cr_assert(eq(int,
		     map_host(&scene, WIRE_HOST_BASE, CHUNK, host_new(CHUNK, &memory)),
		     0));
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
	cr_assert(eq(int,
		     map_host(&scene, WIRE_HOST_BASE, CHUNK, host_new(CHUNK, &memory)),
		     0));
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

static int alloc(struct scene *scene, uint32_t flags, uint32_t stream, uint64_t length,
		 uint64_t *ret_address)
{
	struct wire_reply reply;
	int error;

	error = fixture_ask(&scene->fixture,
			    (struct wire_request){ .op = WIRE_ALLOC,
						   .flags = flags,
						   .stream = stream,
						   .length = length },
			    -1, &reply);
	*ret_address = reply.value[0];
	return error;
}

static int free_memory(struct scene *scene, uint32_t flags, uint32_t stream,
		       uint64_t address)
{
	return ask(scene, (struct wire_request){ .op = WIRE_FREE,
						 .flags = flags & WIRE_ASYNC,
						 .stream = stream,
						 .address = address });
}

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

/* What holds from address on, and how far. */
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

/* The worker is not told where: it has to find the ends of the ranges itself. */
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

#define N_STEPS 100

/* Each step doubles what is there and writes it further on: only in order it comes out
 * right. */
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

	if (!driver_is_soft())
		cr_skip("only the software GPU can be told to be slow");
	scene_start(&scene, "delay=cuMemcpyHtoDAsync_v2@*=1s");
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	for (unsigned int i = 0; i < ARRAY_SIZE(slow); i++)
		question_ask(&slow[i], &scene.fixture,
			     transfer(WIRE_WRITE, 0, BASE + i * 4096, 4096, 0), -1);
	cr_assert(eq(int, map(&scene, 0, BASE + CHUNK, CHUNK, 0), 0));
	cr_assert(gt(u32, link_pending(scene.fixture.link), 10));
	for (unsigned int i = 0; i < ARRAY_SIZE(slow); i++) {
		question_wait(&slow[i]);
		cr_assert(eq(int, slow[i].reply.error, 0));
	}
	scene_stop(&scene);
}

Test(worker, lost_context_is_answered_to_everything_after)
{
	struct wire_reply reply;
	struct scene scene;

	if (!driver_is_soft())
		cr_skip("only the software GPU can be told to fail");
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

	if (!driver_is_soft())
		cr_skip("only the software GPU can be told to kill");
	scene_start(&scene, "kill=cuMemcpyHtoDAsync_v2@1");
	question_ask(&question, &scene.fixture, transfer(WIRE_WRITE, 0, BASE, 1, 0), -1);
	question_wait(&question);
	cr_assert(question.lost);
	cr_assert(eq(str, (char *)fixture_wait_end(&scene.fixture),
		     "was killed by signal 9"));
	fixture_stop(&scene.fixture);
	cuda_driver_free(scene.driver);
}

/* An answer before its end would have the next one read what is not there yet. */
Test(worker, failure_to_wait_is_no_answer)
{
	struct scene scene;

	if (!driver_is_soft())
		cr_skip("only the software GPU can be told to fail");
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

	if (!driver_is_soft())
		cr_skip("only the software GPU can be told to fail");
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
	scene_start_as(&scene, (struct link_config){ .name = "mover",
						     .mover = true,
						     .driver = "/nowhere/libcuda.so.1" });
	cr_assert(eq(str, (char *)fixture_wait_end(&scene.fixture),
		     "can't work: No such file or directory"));
	fixture_stop(&scene.fixture);
	cuda_driver_free(scene.driver);
}

Test(worker, address_range_that_is_not_granted_shows_as_the_end)
{
	struct scene scene;

	if (!driver_is_soft())
		cr_skip("only the software GPU can be told to fail");
	scene_start(&scene, "fail=cuMemAddressReserve@1=CUDA_ERROR_OUT_OF_MEMORY");
	cr_assert(eq(str, (char *)fixture_wait_end(&scene.fixture),
		     "can't work: cuMemAddressReserve failed: CUDA_ERROR_OUT_OF_MEMORY"));
	fixture_stop(&scene.fixture);
	cuda_driver_free(scene.driver);
}

Test(worker, failed_mapping_leaves_the_address_free)
{
	struct scene scene;

	if (!driver_is_soft())
		cr_skip("only the software GPU can be told to fail");
	scene_start(&scene, "fail=cuMemMap@1=CUDA_ERROR_UNKNOWN:"
			    "fail=cuMemSetAccess@1=CUDA_ERROR_NOT_SUPPORTED");
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), EIO));
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), EOPNOTSUPP));
	cr_assert(eq(int, unmap(&scene, 0, BASE, CHUNK), EINVAL));
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	cr_assert(eq(int, put(&scene, 0, BASE, "x", 1), 0));
	scene_stop(&scene);
}

/* The first registration is that of the staging area. */
Test(worker, failed_registration_leaves_the_address_free)
{
	struct scene scene;
	uint8_t *memory;

	if (!driver_is_soft())
		cr_skip("only the software GPU can be told to fail");
	scene_start(&scene, "fail=cuMemHostRegister_v2@2=CUDA_ERROR_OUT_OF_MEMORY");
	cr_assert(eq(int,
		     map_host(&scene, WIRE_HOST_BASE, CHUNK, host_new(CHUNK, &memory)),
		     ENOMEM));
	cr_assert(eq(int,
		     map_host(&scene, WIRE_HOST_BASE, CHUNK, host_new(CHUNK, &memory)),
		     0));
	scene_stop(&scene);
}

Test(worker, failed_context_is_made_at_the_next_use)
{
	struct scene scene;

	if (!driver_is_soft())
		cr_skip("only the software GPU can be told to fail");
	settings_set("fail=cuDevicePrimaryCtxRetain@1=CUDA_ERROR_OUT_OF_MEMORY");
	scene_start_as(&scene, (struct link_config){
				       .name = "own", .uid = getuid(), .gid = getgid() });
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), ENOMEM));
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	scene_stop(&scene);
}

static bool status_has(pid_t pid, const char *line)
{
	char path[64], text[4096] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	cr_assert(ne(ptr, file, NULL));
	cr_assert(gt(sz, fread(text, 1, sizeof(text) - 1, file), 0));
	fclose(file);
	return strstr(text, line);
}

Test(worker, owners_worker_runs_as_its_owner)
{
	struct scene scene;
	pid_t pid;

	if (geteuid() != 0)
		cr_skip("only root can become somebody else");
	settings_set("");
	scene_start_as(&scene,
		       (struct link_config){ .name = "1234", .uid = 1234, .gid = 1235 });
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	pid = link_pid(scene.fixture.link);
	cr_assert(status_has(pid, "\nUid:\t1234\t1234\t1234\t1234\n"));
	cr_assert(status_has(pid, "\nGid:\t1235\t1235\t1235\t1235\n"));
	cr_assert(status_has(pid, "\nGroups:\t1235 \n"));
	cr_assert(status_has(pid, "\nNoNewPrivs:\t1\n"));
	cr_assert(eq(int, put(&scene, 0, BASE, "x", 1), 0));
	scene_stop(&scene);
}

Test(worker, owners_worker_makes_contexts_at_the_first_use)
{
	struct scene scene;

	settings_set("");
	scene_start_as(&scene, (struct link_config){
				       .name = "own", .uid = getuid(), .gid = getgid() });
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	if (scene.n_devices > 1) {
		cr_assert(eq(int, map(&scene, 1, BASE_OF(1), CHUNK, 0), 0));
		cr_assert(eq(int, put(&scene, 1, BASE_OF(1), "x", 1), 0));
	}
	scene_stop(&scene);
}

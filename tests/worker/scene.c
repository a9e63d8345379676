/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/text.h"
#include "scene.h"

bool driver_is_soft(void)
{
	return strchr(getenv("GPUMEM_DRIVER"), '/');
}

void settings_set(const char *extra)
{
	char settings[512];

	snprintf(settings, sizeof(settings),
		 "devices=%d:memory=256M:machine=worker-%d%s%s", N_DEVICES, getpid(),
		 *extra ? ":" : "", extra);
	setenv("GPUMEM_SOFTGPU", settings, 1);
}

void scene_start_as(struct scene *scene, struct channel_config config)
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

void scene_start(struct scene *scene, const char *extra)
{
	if (*extra && !driver_is_soft())
		cr_skip("only the software GPU can be told: %s", extra);
	settings_set("");
	if (*extra)
		settings_set(extra);
	scene_start_as(scene, (struct channel_config){ .name = "mover", .mover = true });
}

void scene_stop(struct scene *scene)
{
	const char *reason;

	channel_stop(scene->fixture.channel, 30);
	reason = fixture_wait_end(&scene->fixture);
	cr_assert(eq(int, strcmp(reason, "was stopped"), 0), "the worker %s", reason);
	fixture_stop(&scene->fixture);
	cuda_driver_free(scene->driver);
}

void scene_expect_end(struct scene *scene, const char *reason)
{
	cr_assert(eq(str, (char *)fixture_wait_end(&scene->fixture), (char *)reason));
	fixture_stop(&scene->fixture);
	cuda_driver_free(scene->driver);
}

int physical_new(struct scene *scene, int device, size_t length)
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

int ask(struct scene *scene, struct wire_request request)
{
	return fixture_ask(&scene->fixture, request, -1, NULL);
}

int map(struct scene *scene, unsigned int device, uint64_t address, uint64_t length,
	uint32_t flags)
{
	return fixture_ask(&scene->fixture,
			   (struct wire_request){ .op = WIRE_MAP,
						  .device = device,
						  .address = address,
						  .length = length,
						  .flags = flags },
			   physical_new(scene, (int)device, length), NULL);
}

int unmap(struct scene *scene, unsigned int device, uint64_t address, uint64_t length)
{
	return ask(scene, (struct wire_request){ .op = WIRE_UNMAP,
						 .device = device,
						 .address = address,
						 .length = length });
}

struct wire_request transfer(uint32_t op, unsigned int device, uint64_t address,
			     uint64_t length, unsigned int slot)
{
	return (struct wire_request){ .op = op,
				      .device = device,
				      .address = address,
				      .length = length,
				      .offset = staging_offset(slot) };
}

int put(struct scene *scene, unsigned int device, uint64_t address, const void *bytes,
	size_t length)
{
	memcpy(staging_payload(&scene->fixture.staging, 0), bytes, length);
	return ask(scene, transfer(WIRE_WRITE, device, address, length, 0));
}

int get(struct scene *scene, unsigned int device, uint64_t address, void *bytes,
	size_t length)
{
	uint8_t *payload = staging_payload(&scene->fixture.staging, 1);
	int error;

	memset(payload, 0xee, length);
	error = ask(scene, transfer(WIRE_READ, device, address, length, 1));
	memcpy(bytes, payload, length);
	return error;
}

int fill(struct scene *scene, unsigned int device, uint64_t address, uint64_t length,
	 uint64_t pattern, uint32_t size)
{
	return ask(scene, (struct wire_request){ .op = WIRE_FILL,
						 .device = device,
						 .address = address,
						 .length = length,
						 .pattern = pattern,
						 .pattern_size = size });
}

void noise(uint8_t *bytes, size_t length, unsigned int seed)
{
	for (size_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)((i * 2654435761u + seed) >> 7);
}

uint8_t wanted[WIRE_TRANSFER_MAX];
uint8_t found[WIRE_TRANSFER_MAX];

void expect_bytes(struct scene *scene, unsigned int device, uint64_t address,
		  size_t length)
{
	cr_assert(eq(int, get(scene, device, address, found, length), 0));
	cr_assert(eq(int, memcmp(wanted, found, length), 0));
}
int map_host(struct scene *scene, uint64_t address, size_t length, int fd)
{
	return fixture_ask(&scene->fixture,
			   (struct wire_request){ .op = WIRE_MAP_HOST,
						  .address = address,
						  .length = length },
			   fd, NULL);
}

int host_new(size_t length, uint8_t **ret_memory)
{
	int fd = memfd_create("host", MFD_CLOEXEC);

	cr_assert(eq(int, ftruncate(fd, (off_t)length), 0));
	*ret_memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert(ne(ptr, *ret_memory, MAP_FAILED));
	return fd;
}

int alloc(struct scene *scene, uint32_t flags, uint32_t stream, uint64_t length,
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

int free_memory(struct scene *scene, uint32_t flags, uint32_t stream, uint64_t address)
{
	return ask(scene, (struct wire_request){ .op = WIRE_FREE,
						 .flags = flags & WIRE_ASYNC,
						 .stream = stream,
						 .address = address });
}

uint8_t *host_mapped(struct scene *scene)
{
	uint8_t *memory;

	cr_assert(eq(int,
		     map_host(scene, WIRE_HOST_BASE, CHUNK, host_new(CHUNK, &memory)),
		     0));
	return memory;
}

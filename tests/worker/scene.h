/* SPDX-License-Identifier: MIT */
/*
 * The real worker through the real link, on the driver that GPUMEM_DRIVER names.
 *
 * The test plays the broker: it makes physical memory with the driver, without a context,
 * and hands descriptors to the worker. Helpers that send a request return the reply's
 * error.
 */
#pragma once

#include "cuda/driver.h"
#include "unit/channel/channel_help.h"

#define CHUNK		(2u << 20)
#define BASE		WIRE_DEVICE_BASE
#define BASE_OF(device) (WIRE_DEVICE_BASE + (device)*WIRE_DEVICE_SPAN)
#define N_SLOTS		4
#define N_DEVICES	2

struct scene {
	struct fixture fixture;
	struct cuda_driver *driver;
	int n_devices;
};

/* Whether the driver is the software GPU, which can be told to fail. */
bool driver_is_soft(void);

/* Separate devices for this test; extra: more settings of the software GPU, or "". */
void settings_set(const char *extra);

/* Starts a worker as config says: an owner's worker, or with another driver. */
void scene_start_as(struct scene *scene, struct channel_config config);

/*
 * Starts the mover. Settings in extra apply to the mover's driver and not to the test's
 * own. With settings, the case is skipped unless the driver is the software GPU.
 */
void scene_start(struct scene *scene, const char *extra);

/* The worker must have ended well. */
void scene_stop(struct scene *scene);

/* Physical memory on a device, as a descriptor. */
int physical_new(struct scene *scene, int device, size_t length);

/* The worker has ended unasked, for this reason. */
void scene_expect_end(struct scene *scene, const char *reason);

/* Host memory, also mapped in this process. Returns: its descriptor. */
int host_new(size_t length, uint8_t **ret_memory);

int ask(struct scene *scene, struct wire_request request);
int map(struct scene *scene, unsigned int device, uint64_t address, uint64_t length,
	uint32_t flags);
int unmap(struct scene *scene, unsigned int device, uint64_t address, uint64_t length);
int map_host(struct scene *scene, uint64_t address, size_t length, int fd);
int alloc(struct scene *scene, uint32_t flags, uint32_t stream, uint64_t length,
	  uint64_t *ret_address);
int free_memory(struct scene *scene, uint32_t flags, uint32_t stream, uint64_t address);

/* A CHUNK of host memory, mapped in the worker at WIRE_HOST_BASE. Returns: its address in
 * this process. */
uint8_t *host_mapped(struct scene *scene);

/* A READ or WRITE through a slot of the staging area. */
struct wire_request transfer(uint32_t op, unsigned int device, uint64_t address,
			     uint64_t length, unsigned int slot);
int put(struct scene *scene, unsigned int device, uint64_t address, const void *bytes,
	size_t length);
int get(struct scene *scene, unsigned int device, uint64_t address, void *bytes,
	size_t length);
int fill(struct scene *scene, unsigned int device, uint64_t address, uint64_t length,
	 uint64_t pattern, uint32_t size);

/* Pseudo-random bytes, different for each seed. */
void noise(uint8_t *bytes, size_t length, unsigned int seed);

extern uint8_t wanted[WIRE_TRANSFER_MAX];
extern uint8_t found[WIRE_TRANSFER_MAX];

/* The memory equals `wanted`. */
void expect_bytes(struct scene *scene, unsigned int device, uint64_t address,
		  size_t length);

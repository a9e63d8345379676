/* SPDX-License-Identifier: MIT */
#include "process/device_probe.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#include "base/def.h"
#include "cuda/driver.h"
#include "model/device.h"
#include "model/registry.h"
#include "process/broker.h"

static int device_attribute(struct broker *broker, CUdevice_attribute attribute,
			    CUdevice id)
{
	int value = 0;

	if (CUDA(broker->driver, NULL, cuDeviceGetAttribute, &value, attribute, id) < 0)
		return 0;
	return value;
}

static void device_format_uuid(const CUuuid *uuid, char *text, size_t size)
{
	size_t length = (size_t)snprintf(text, size, "GPU-");

	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			length += (size_t)snprintf(text + length, size - length, "-");
		length += (size_t)snprintf(text + length, size - length, "%02x",
					   (unsigned char)uuid->bytes[i]);
	}
}

static void device_find_limits(struct broker *broker, CUdevice id,
			       struct launch_limits *limits)
{
	for (int i = 0; i < 3; i++) {
		limits->grid[i] = (uint32_t)device_attribute(
			broker, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i, id);
		limits->block[i] = (uint32_t)device_attribute(
			broker, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i, id);
	}
	limits->threads = (uint32_t)device_attribute(
		broker, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, id);
	limits->shared = (uint32_t)device_attribute(
		broker, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, id);
	limits->cooperative =
		device_attribute(broker, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, id);
	limits->cluster =
		device_attribute(broker, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, id);
}

/* Bit mask of the devices whose memory a kernel on this device can access. */
static uint32_t device_find_peers(struct broker *broker, uint32_t index, CUdevice id)
{
	uint32_t peers = 1u << index;

	for (uint32_t i = 0; i < broker->registry->n_devices; i++) {
		CUdevice other;
		int reaches = 0;

		if (CUDA(broker->driver, NULL, cuDeviceGet, &other, (int)i) == 0 &&
		    CUDA(broker->driver, NULL, cuDeviceCanAccessPeer, &reaches, id,
			 other) == 0 &&
		    reaches)
			peers |= 1u << i;
	}
	return peers;
}

static int device_new(struct device **ret_device, struct broker *broker, uint32_t index,
		      struct cuda_failure *failure)
{
	_cleanup_free_ struct device *device = calloc(1, sizeof(*device));
	struct cuda_driver *driver = broker->driver;
	size_t total = 0;
	CUuuid uuid = { 0 };
	CUdevice id;
	int r;

	if (!device)
		return -ENOMEM;
	device->index = index;
	r = CUDA(driver, failure, cuDeviceGet, &id, (int)index);
	if (r == 0)
		r = CUDA(driver, failure, cuDeviceGetName, device->name,
			 (int)sizeof(device->name), id);
	if (r == 0)
		r = CUDA(driver, failure, cuDeviceGetUuid_v2, &uuid, id);
	if (r == 0)
		r = CUDA(driver, failure, cuDeviceGetPCIBusId, device->pci_bus_id,
			 (int)sizeof(device->pci_bus_id), id);
	if (r == 0)
		r = CUDA(driver, failure, cuDeviceTotalMem_v2, &total, id);
	if (r < 0)
		return r;
	device->memory_total = total;
	device_format_uuid(&uuid, device->uuid, sizeof(device->uuid));
	device->major = device_attribute(
		broker, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, id);
	device->minor = device_attribute(
		broker, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, id);
	device->has_vmm =
		device_attribute(broker,
				 CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
				 id) &&
		device_attribute(
			broker,
			CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
			id);
	device->has_managed =
		device_attribute(broker, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, id);
	device->has_concurrent = device_attribute(
		broker, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, id);
	device_find_limits(broker, id, &device->limits);
	device->peers = device_find_peers(broker, index, id);
	r = handle_table_add(&broker->registry->devices, device, &device->slot,
			     &device->slot_generation);
	if (r == 0)
		*ret_device = take_ptr(device);
	return r;
}

int devices_probe(struct broker *broker, struct cuda_failure *failure)
{
	int n, r;

	r = CUDA(broker->driver, failure, cuDeviceGetCount, &n);
	if (r < 0)
		return r;
	broker->registry->n_devices = MIN((unsigned int)n, (unsigned int)DEVICES_MAX);
	for (uint32_t i = 0; r == 0 && i < broker->registry->n_devices; i++)
		r = device_new(&broker->registry->device_at[i], broker, i, failure);
	return r;
}

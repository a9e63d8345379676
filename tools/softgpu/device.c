/* SPDX-License-Identifier: MIT */
/*
 * The driver and the devices: questions that need no context.
 *
 * All devices are alike but for the index, which shows in the UUID and the PCI address.
 * Every device reaches every other. The attributes are an H200's where programs choose by
 * them, and 0, as for a device without the feature, where they are not in the table.
 */
#include "call.h"
#include "context.h"
#include "options.h"
#include "softgpu/memory/ledger.h"

#include <stdio.h>
#include <string.h>

#define PCI_BUS(device) (1 + (device))

/* The attributes of CUDA 13.0 are below this number. */
#define ATTRIBUTE_END 148

static const int attributes[] = {
	[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024,
	[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X] = 1024,
	[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y] = 1024,
	[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z] = 64,
	[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X] = 2147483647,
	[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y] = 65535,
	[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z] = 65535,
	[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK] = 49152,
	[CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY] = 65536,
	[CU_DEVICE_ATTRIBUTE_WARP_SIZE] = 32,
	[CU_DEVICE_ATTRIBUTE_MAX_PITCH] = 2147483647,
	[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK] = 65536,
	[CU_DEVICE_ATTRIBUTE_CLOCK_RATE] = 1000000,
	[CU_DEVICE_ATTRIBUTE_GPU_OVERLAP] = 1,
	[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT] = 4,
	[CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY] = 1,
	[CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS] = 1,
	[CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE] = 1000000,
	[CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH] = 64,
	[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR] = 2048,
	[CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT] = 3,
	[CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING] = 1,
	[CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED] = 1,
	[CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM] = 1,
	[CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED] = 1,
	[CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = 1,
	[CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED] = 1,
	[CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY] = 1,
	[CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR] = 32,
	[CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH] = 1,
	[CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED] = 1,
	[CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH] = 1,
	[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR] = 65536,
	[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR] = 233472,
	[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN] = 232448,
	[CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK] = 1024,
	[CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED] = 1,
	[CU_DEVICE_ATTRIBUTE_NUMA_ID] = -1,
	[CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID] = 0,
};

/* Attributes that differ between devices, or that options set. */
static int device_attribute(CUdevice_attribute attribute, CUdevice device)
{
	switch ((int)attribute) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		return options.capability_major;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
		return options.capability_minor;
	case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
		return PCI_BUS(device);
	case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
		return options.concurrent;
	default:
		return (size_t)attribute < ARRAY_SIZE(attributes) ? attributes[attribute]
								  : 0;
	}
}

/* FNV-1a: the same machine has the same devices in every process. */
static uint64_t text_hash(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
	return hash;
}

static CUresult device_check(CUdevice device, const void *ret)
{
	if (device < 0 || device >= options.n_devices)
		return CUDA_ERROR_INVALID_DEVICE;
	return ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CALL(cuInit, NEED_NOTHING, (unsigned int flags), (flags))
{
	CUresult result;

	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (call_is_initialized())
		return call_poisoned();
	if (options_read() < 0)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_inject(CUDA_ROW_cuInit);
	if (result)
		return result;
	if (!options.n_devices)
		return CUDA_ERROR_NO_DEVICE;
	if (ledger_open() < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	contexts_init();
	call_set_initialized();
	return CUDA_SUCCESS;
}

CALL(cuDriverGetVersion, NEED_NOTHING, (int *ret), (ret))
{
	if (!ret || options_read() < 0)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = options.version;
	return CUDA_SUCCESS;
}

CALL(cuGetErrorName, NEED_NOTHING, (CUresult error, const char **ret), (error, ret))
{
	const char *name = cuda_result_name((int)error);

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = cuda_result_find(name) == (int)error ? name : NULL;
	return *ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The names say enough: no second table of sentences. */
CALL(cuGetErrorString, NEED_NOTHING, (CUresult error, const char **ret), (error, ret))
{
	return body_cuGetErrorName(error, ret);
}

CALL(cuDeviceGet, NEED_INIT, (CUdevice * ret, int ordinal), (ret, ordinal))
{
	CUresult result = device_check(ordinal, ret);

	if (!result)
		*ret = ordinal;
	return result;
}

CALL(cuDeviceGetCount, NEED_INIT, (int *ret), (ret))
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = options.n_devices;
	return CUDA_SUCCESS;
}

CALL(cuDeviceGetName, NEED_INIT, (char *ret, int size, CUdevice device),
     (ret, size, device))
{
	CUresult result = device_check(device, ret);

	if (result)
		return result;
	if (size < 1)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(ret, (size_t)size, "%s", options.name);
	return CUDA_SUCCESS;
}

CALL(cuDeviceGetUuid_v2, NEED_INIT, (CUuuid * ret, CUdevice device), (ret, device))
{
	CUresult result = device_check(device, ret);
	uint64_t machine = text_hash(options.machine);

	if (result)
		return result;
	memset(ret, 0, sizeof(*ret));
	memcpy(ret->bytes, "gpumem", 6);
	memcpy(ret->bytes + 7, &machine, sizeof(machine));
	ret->bytes[15] = (char)device;
	return CUDA_SUCCESS;
}

CALL(cuDeviceGetAttribute, NEED_INIT,
     (int *ret, CUdevice_attribute attribute, CUdevice device), (ret, attribute, device))
{
	CUresult result = device_check(device, ret);

	if (result)
		return result;
	if ((int)attribute < 1 || attribute >= ATTRIBUTE_END)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = device_attribute(attribute, device);
	return CUDA_SUCCESS;
}

CALL(cuDeviceTotalMem_v2, NEED_INIT, (size_t * ret, CUdevice device), (ret, device))
{
	CUresult result = device_check(device, ret);

	if (!result)
		*ret = options.memory;
	return result;
}

CALL(cuDeviceGetPCIBusId, NEED_INIT, (char *ret, int size, CUdevice device),
     (ret, size, device))
{
	CUresult result = device_check(device, ret);

	if (result)
		return result;
	if (size < 13)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(ret, (size_t)size, "0000:%02X:00.0", PCI_BUS(device));
	return CUDA_SUCCESS;
}

CALL(cuDeviceCanAccessPeer, NEED_INIT, (int *ret, CUdevice device, CUdevice peer),
     (ret, device, peer))
{
	CUresult result = device_check(device, ret);

	if (!result)
		result = device_check(peer, ret);
	if (!result)
		*ret = device != peer;
	return result;
}

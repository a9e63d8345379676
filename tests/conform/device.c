/* SPDX-License-Identifier: MIT */
/* Driver, devices and contexts. */
#include "conform.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

SUITE(device);
SUITE(context);

Test(device, call_before_init_is_refused)
{
	const char *path = getenv("GPUMEM_DRIVER");
	void *library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
	CUresult (*count)(int *), (*init)(unsigned int);
	int n;

	MUST(library != NULL);
	*(void **)&count = dlsym(library, "cuDeviceGetCount");
	*(void **)&init = dlsym(library, "cuInit");
	cr_assert_eq(count(&n), CUDA_ERROR_NOT_INITIALIZED);
	cr_assert_eq(init(1), CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(init(0), CUDA_SUCCESS);
	cr_assert_eq(init(0), CUDA_SUCCESS);
	cr_assert_eq(count(&n), CUDA_SUCCESS);
}

Test(device, driver_is_of_cuda_12_2_or_newer)
{
	int version;

	conform_open();
	OK(cuDriverGetVersion, &version);
	cr_assert_geq(version, 12020);
	cr_assert_eq(version, driver->version);
}

Test(device, past_the_count_is_refused)
{
	CUdevice device;
	int n;

	conform_open();
	OK(cuDeviceGetCount, &n);
	for (int i = 0; i < n; i++)
		OK(cuDeviceGet, &device, i);
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet, &device, n);
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet, &device, -1);
}

Test(device, tells_name_memory_and_pci_address)
{
	unsigned int domain, bus, slot;
	char text[128];
	size_t bytes;
	int attribute;

	conform_open();
	OK(cuDeviceGetName, text, sizeof(text), 0);
	cr_assert(text[0]);
	OK(cuDeviceTotalMem_v2, &bytes, 0);
	cr_assert_gt(bytes, 0);
	OK(cuDeviceGetPCIBusId, text, sizeof(text), 0);
	cr_assert_eq(sscanf(text, "%x:%x:%x.0", &domain, &bus, &slot), 3);
	OK(cuDeviceGetAttribute, &attribute, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0);
	cr_assert_eq(attribute, (int)bus);
}

Test(device, name_is_cut_to_the_buffer)
{
	char text[8];

	conform_open();
	memset(text, 'x', sizeof(text));
	OK(cuDeviceGetName, text, 4, 0);
	cr_assert_eq(text[3], '\0');
	cr_assert_eq(text[4], 'x');
}

Test(device, has_what_the_project_needs)
{
	static const CUdevice_attribute needed[] = {
		CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
		CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
		CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED,
	};
	int value;

	conform_open();
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		OK(cuDeviceGetAttribute, &value, needed[i], 0);
		cr_expect_eq(value, 1, "attribute %d is %d", (int)needed[i], value);
	}
}

Test(device, unknown_attribute_is_refused)
{
	int value;

	conform_open();
	FAILS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute, &value,
	      (CUdevice_attribute)0, 0);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute, &value,
	      (CUdevice_attribute)100000, 0);
}

static void send_uuid(int socket)
{
	uint64_t half;
	CUuuid uuid;

	conform_open();
	OK(cuDeviceGetUuid_v2, &uuid, 0);
	memcpy(&half, uuid.bytes + 8, sizeof(half));
	wire_send(socket, half, -1);
}

Test(device, uuid_is_the_same_in_every_process)
{
	struct child child;
	uint64_t half, told;
	CUuuid uuid;

	child_start(&child, send_uuid);
	told = wire_receive(child.socket, NULL);
	child_finish(&child);
	conform_open();
	OK(cuDeviceGetUuid_v2, &uuid, 0);
	memcpy(&half, uuid.bytes + 8, sizeof(half));
	cr_assert_eq(half, told);
}

Test(device, uuids_and_pci_addresses_differ)
{
	CUuuid uuids[2];
	char pci[2][16];

	conform_open();
	conform_need_devices(2);
	for (int i = 0; i < 2; i++) {
		OK(cuDeviceGetUuid_v2, &uuids[i], i);
		OK(cuDeviceGetPCIBusId, pci[i], sizeof(pci[i]), i);
	}
	cr_assert_neq(memcmp(&uuids[0], &uuids[1], sizeof(uuids[0])), 0);
	cr_assert_str_neq(pci[0], pci[1]);
}

Test(device, errors_have_names_and_strings)
{
	const char *text;

	conform_open();
	OK(cuGetErrorName, CUDA_ERROR_OUT_OF_MEMORY, &text);
	cr_assert_str_eq(text, "CUDA_ERROR_OUT_OF_MEMORY");
	OK(cuGetErrorName, CUDA_ERROR_ILLEGAL_ADDRESS, &text);
	cr_assert_str_eq(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
	OK(cuGetErrorString, CUDA_ERROR_OUT_OF_MEMORY, &text);
	cr_assert(text[0]);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuGetErrorName, (CUresult)54321, &text);
}

Test(device, is_no_peer_of_itself)
{
	int can;

	conform_open();
	OK(cuDeviceCanAccessPeer, &can, 0, 0);
	cr_assert_eq(can, 0);
}

Test(context, call_without_one_is_refused)
{
	CUdeviceptr at;
	CUcontext none;

	conform_open();
	OK(cuCtxGetCurrent, &none);
	cr_assert_null(none);
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc_v2, &at, 4096);
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize);
}

Test(context, of_a_device_is_the_same_twice)
{
	CUcontext first, second;
	unsigned int flags;
	int active;

	conform_open();
	OK(cuDevicePrimaryCtxGetState, 0, &flags, &active);
	cr_assert_eq(active, 0);
	OK(cuDevicePrimaryCtxRetain, &first, 0);
	OK(cuDevicePrimaryCtxRetain, &second, 0);
	cr_assert_eq(first, second);
	OK(cuDevicePrimaryCtxRelease_v2, 0);
	OK(cuDevicePrimaryCtxGetState, 0, &flags, &active);
	cr_assert_eq(active, 1);
	OK(cuDevicePrimaryCtxRelease_v2, 0);
	OK(cuDevicePrimaryCtxGetState, 0, &flags, &active);
	cr_assert_eq(active, 0);
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease_v2, 0);
}

Test(context, is_pushed_and_popped)
{
	CUcontext context = conform_context();
	CUcontext current;
	CUdevice device;

	OK(cuCtxPushCurrent_v2, context);
	OK(cuCtxPopCurrent_v2, &current);
	cr_assert_eq(current, context);
	OK(cuCtxGetCurrent, &current);
	cr_assert_eq(current, context);
	OK(cuCtxGetDevice, &device);
	cr_assert_eq(device, 0);
	OK(cuCtxSetCurrent, NULL);
	OK(cuCtxGetCurrent, &current);
	cr_assert_null(current);
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent_v2, &current);
}

static void *get_current(void *ret)
{
	OK(cuCtxGetCurrent, ret);
	return NULL;
}

Test(context, is_current_in_its_own_thread_only)
{
	CUcontext context = conform_context();
	CUcontext there = context;
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, get_current, &there), 0);
	pthread_join(thread, NULL);
	cr_assert_null(there);
}

Test(context, device_that_is_not_there_has_none)
{
	CUcontext context;

	conform_open();
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxRetain, &context, 1000);
}

Test(context, reset_frees_its_memory_and_it_can_be_made_again)
{
	CUcontext context = conform_context();
	CUdeviceptr at;

	OK(cuMemAlloc_v2, &at, MIB);
	OK(cuDevicePrimaryCtxReset_v2, 0);
	OK(cuDevicePrimaryCtxRetain, &context, 0);
	OK(cuCtxSetCurrent, context);
	OK(cuMemAlloc_v2, &at, MIB);
	OK(cuMemFree_v2, at);
}

Test(context, peer_access_of_itself_is_refused)
{
	CUcontext context = conform_context();

	FAILS(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess, context, 0);
}

Test(context, peer_access_is_enabled_once)
{
	CUcontext peer;
	int can;

	conform_context();
	conform_need_devices(2);
	OK(cuDeviceCanAccessPeer, &can, 0, 1);
	if (!can)
		cr_skip_test("device 0 can't reach device 1");
	OK(cuDevicePrimaryCtxRetain, &peer, 1);
	OK(cuCtxEnablePeerAccess, peer, 0);
	FAILS(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess, peer, 0);
	OK(cuCtxDisablePeerAccess, peer);
	FAILS(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess, peer);
}

/* SPDX-License-Identifier: MIT */
/*
 * Maps leased memory in this program: device memory with the driver's virtual memory
 * management, host memory with mmap.
 *
 * Device memory is mapped where the allocation's workers have it, so that pointers are
 * equal in all programs. For this the whole address range of the device's allocations is
 * reserved. After an unmap the address can stay reserved.
 */
#include "client/private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define DRIVER_DEFAULT "libcuda.so.1"
#define RANGES_MAX     64 /* one for each device of each mount */

/* ---- the driver ---- */

static struct {
	pthread_mutex_t lock;
	struct cuda_driver *driver;  /* lock; never freed, like the library */
	uint64_t ranges[RANGES_MAX]; /* lock: addresses of reserved ranges */
	unsigned int n_ranges;
} loaded = { .lock = PTHREAD_MUTEX_INITIALIZER };

int memory_driver(struct cuda_driver **ret)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	const char *path = secure_getenv("GPUMEM_DRIVER");
	int r = 0;

	pthread_mutex_lock(&loaded.lock);
	if (!loaded.driver)
		r = cuda_driver_open(path && *path ? path : DRIVER_DEFAULT,
				     &loaded.driver, &why);
	*ret = loaded.driver;
	pthread_mutex_unlock(&loaded.lock);
	if (r == -ENOENT)
		text_printf(&why, "; for a mount of the software GPU set "
				  "GPUMEM_DRIVER=$(cat MOUNT/driver_path)");
	return r < 0 ? error_set(-r, "%s", text_string(&why)) : 0;
}

static int driver_fail(const struct cuda_failure *failure, const char *what)
{
	const char *hint = failure->result == CUDA_ERROR_INVALID_CONTEXT
				   ? ": make a context current first"
				   : "";

	return error_set(EIO, "%s: %s: %s%s", what, cuda_call_name(failure->call),
			 cuda_result_name(failure->result), hint);
}

static void uuid_print(const CUuuid *uuid, char text[48])
{
	size_t length = (size_t)snprintf(text, 48, "GPU-");

	for (int i = 0; i < 16; i++)
		length +=
			(size_t)snprintf(text + length, 48 - length, "%s%02x",
					 i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
					 (unsigned char)uuid->bytes[i]);
}

int memory_device_uuid(int ordinal, char uuid[48])
{
	struct cuda_failure failure = CUDA_FAILURE_NONE;
	struct cuda_driver *driver;
	CUdevice device;
	CUuuid bytes;
	int r = memory_driver(&driver);

	if (r < 0)
		return r;
	if (CUDA(driver, &failure, cuDeviceGet, &device, ordinal) < 0 ||
	    CUDA(driver, &failure, cuDeviceGetUuid_v2, &bytes, device) < 0) {
		(void)driver_fail(&failure, "this program has no such device");
		return -ENODEV;
	}
	uuid_print(&bytes, uuid);
	return 0;
}

/* The program's ordinal of a device. Returns: -ENODEV when the device is hidden. */
static int device_find(struct cuda_driver *driver, const char *uuid)
{
	int n = 0;

	(void)CUDA(driver, NULL, cuDeviceGetCount, &n);
	for (int i = 0; i < n; i++) {
		CUuuid bytes;
		CUdevice device;
		char text[48];

		if (CUDA(driver, NULL, cuDeviceGet, &device, i) < 0 ||
		    CUDA(driver, NULL, cuDeviceGetUuid_v2, &bytes, device) < 0)
			continue;
		uuid_print(&bytes, text);
		if (strcmp(text, uuid) == 0)
			return i;
	}
	return error_set(ENODEV,
			 "its device %s is not among the %d that this program sees "
			 "(CUDA_VISIBLE_DEVICES)",
			 uuid, n);
}

static int address_taken(const struct lease *lease)
{
	return error_set(EADDRINUSE,
			 "address 0x%llx of %s is taken in this program: map it with "
			 "GPUMEM_ANY_ADDRESS (in Python any_address=True)",
			 (unsigned long long)lease->address, lease->name);
}

/* ---- device memory ---- */

/*
 * Reserves the range of all allocations of the device, permanently. NVIDIA's driver
 * honours a requested address only for large ranges, and places small ones freely. The
 * cost is address space and some microseconds.
 */
static bool range_reserve(struct cuda_driver *driver, const struct lease *lease)
{
	CUdeviceptr pointer = 0;
	bool reserved = false;

	pthread_mutex_lock(&loaded.lock);
	for (unsigned int i = 0; i < loaded.n_ranges; i++)
		reserved |= loaded.ranges[i] == lease->range_address;
	if (!reserved && lease->range_size && loaded.n_ranges < RANGES_MAX &&
	    CUDA(driver, NULL, cuMemAddressReserve, &pointer, lease->range_size, 0,
		 lease->range_address, 0) == 0) {
		reserved = pointer == lease->range_address;
		if (reserved)
			loaded.ranges[loaded.n_ranges++] = pointer;
		else
			(void)CUDA(driver, NULL, cuMemAddressFree, pointer,
				   lease->range_size);
	}
	pthread_mutex_unlock(&loaded.lock);
	return reserved;
}

/* Reserves any free address. */
static int device_reserve_other(struct cuda_driver *driver, struct memory *memory,
				const struct lease *lease, unsigned int flags)
{
	struct cuda_failure failure = CUDA_FAILURE_NONE;
	CUdeviceptr pointer;

	if (!(flags & GPUMEM_ANY_ADDRESS))
		return address_taken(lease);
	if (CUDA(driver, &failure, cuMemAddressReserve, &pointer, lease->mapped_size, 0,
		 0, 0) < 0)
		return driver_fail(&failure, "no address could be reserved");
	(void)maps_claim(memory, pointer);
	return 0;
}

static int device_reserve(struct cuda_driver *driver, struct memory *memory,
			  const struct lease *lease, unsigned int flags)
{
	int r = 0;

	memory->in_range =
		range_reserve(driver, lease) && maps_claim(memory, lease->mapped_address);
	if (!memory->in_range)
		r = device_reserve_other(driver, memory, lease, flags);
	memory->size = lease->mapped_size;
	return r;
}

/* Grants access to the device itself, and to its peers. */
static int device_set_access(struct cuda_driver *driver, const struct memory *memory,
			     bool write)
{
	struct cuda_failure failure = CUDA_FAILURE_NONE;
	CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = memory->device },
		.flags = write ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
			       : CU_MEM_ACCESS_FLAGS_PROT_READ,
	};
	int n = 0;

	if (CUDA(driver, &failure, cuMemSetAccess, memory->pointer, memory->size, &access,
		 1) < 0)
		return driver_fail(&failure, "it could not be made accessible");
	(void)CUDA(driver, NULL, cuDeviceGetCount, &n);
	for (int i = 0; i < n; i++) {
		int reaches = 0;

		if (i == memory->device ||
		    CUDA(driver, NULL, cuDeviceCanAccessPeer, &reaches, i,
			 memory->device) < 0 ||
		    !reaches)
			continue;
		access.location.id = i;
		(void)CUDA(driver, NULL, cuMemSetAccess, memory->pointer, memory->size,
			   &access, 1);
	}
	return 0;
}

static int device_map(struct memory *memory, const struct lease *lease, int fd,
		      unsigned int flags)
{
	struct cuda_failure failure = CUDA_FAILURE_NONE;
	CUmemGenericAllocationHandle handle;
	struct cuda_driver *driver;
	int r = memory_driver(&driver);

	if (r < 0)
		return r;
	memory->device = device_find(driver, lease->uuid);
	if (memory->device < 0)
		return memory->device;
	if (CUDA(driver, &failure, cuMemImportFromShareableHandle, &handle,
		 (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) < 0)
		return driver_fail(&failure, "the memory could not be imported");
	if (!memory->reserved)
		r = device_reserve(driver, memory, lease, flags);
	if (r == 0 && CUDA(driver, &failure, cuMemMap, memory->pointer, memory->size, 0,
			   handle, 0) < 0)
		r = driver_fail(&failure, "the memory could not be mapped");
	else if (r == 0)
		memory->mapped = true;
	/* The mapping keeps the memory. */
	(void)CUDA(driver, NULL, cuMemRelease, handle);
	if (r == 0)
		r = device_set_access(driver, memory, lease->write);
	return r;
}

/* ---- host memory ---- */

static int host_register(struct memory *memory, bool write)
{
	unsigned int flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
			     (write ? 0 : CU_MEMHOSTREGISTER_READ_ONLY);
	struct cuda_failure failure = CUDA_FAILURE_NONE;
	struct cuda_driver *driver;
	int r = memory_driver(&driver);

	if (r < 0)
		return r;
	if (CUDA(driver, &failure, cuMemHostRegister_v2, (void *)memory->pointer,
		 memory->size, flags) < 0)
		return driver_fail(&failure, "the host memory could not be registered");
	memory->registered = true;
	return 0;
}

/* A touch behind the end of the memory would end the program. */
static int host_check(const struct lease *lease, int fd)
{
	struct stat stat;

	if (fstat(fd, &stat) < 0)
		return error_set(errno, "%s: its memory: %s", lease->name,
				 strerror(errno));
	if (stat.st_size >= 0 && (uint64_t)stat.st_size >= lease->mapped_size)
		return 0;
	return error_set(EPROTO,
			 "%s: the broker sent %lld bytes of memory for a mapping of %llu",
			 lease->name, (long long)stat.st_size,
			 (unsigned long long)lease->mapped_size);
}

static int host_map(struct memory *memory, const struct lease *lease, int fd,
		    unsigned int flags)
{
	int protection = PROT_READ | (lease->write ? PROT_WRITE : 0);
	int r = host_check(lease, fd);
	void *pointer;

	if (r < 0)
		return r;
	if (memory->reserved)
		pointer = mmap((void *)memory->pointer, lease->mapped_size, protection,
			       MAP_SHARED | MAP_FIXED, fd, 0);
	else
		pointer = mmap((void *)lease->mapped_address, lease->mapped_size,
			       protection, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
	if (pointer == MAP_FAILED && !memory->reserved && flags & GPUMEM_ANY_ADDRESS)
		pointer = mmap(NULL, lease->mapped_size, protection, MAP_SHARED, fd, 0);
	if (pointer == MAP_FAILED && errno == EEXIST)
		return address_taken(lease);
	if (pointer == MAP_FAILED)
		return error_set(errno, "%s could not be mapped: %s", lease->name,
				 strerror(errno));
	memory->device = -1;
	if (!memory->reserved)
		(void)maps_claim(memory, (uintptr_t)pointer);
	memory->size = lease->mapped_size;
	memory->mapped = true;
	return flags & GPUMEM_REGISTER ? host_register(memory, lease->write) : 0;
}

/* ---- both kinds ---- */

int memory_map(struct memory *memory, const struct lease *lease, int fd,
	       unsigned int flags)
{
	return lease->kind == GPUMEM_HOST ? host_map(memory, lease, fd, flags)
					  : device_map(memory, lease, fd, flags);
}

/* Makes the device's primary context current, if it is active. */
static bool context_borrow(struct cuda_driver *driver, int device, CUcontext *ret_context)
{
	unsigned int flags;
	int active = 0;

	if (CUDA(driver, NULL, cuDevicePrimaryCtxGetState, device, &flags, &active) < 0 ||
	    !active ||
	    CUDA(driver, NULL, cuDevicePrimaryCtxRetain, ret_context, device) < 0)
		return false;
	return CUDA(driver, NULL, cuCtxPushCurrent_v2, *ret_context) == 0;
}

static int context_synchronize(struct cuda_driver *driver)
{
	struct cuda_failure failure = CUDA_FAILURE_NONE;

	(void)CUDA(driver, &failure, cuCtxSynchronize);
	/* A lost context runs no work any more. */
	if (failure.result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ||
	    failure.result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
		return error_set(EBUSY, "a stream is being captured: unmap afterwards");
	return 0;
}

int memory_synchronize_device(int device)
{
	struct cuda_driver *driver;
	CUcontext borrowed;
	int r = memory_driver(&driver);

	if (r < 0)
		return r;
	if (!context_borrow(driver, device, &borrowed))
		return 0;
	r = context_synchronize(driver);
	(void)CUDA(driver, NULL, cuCtxPopCurrent_v2, &borrowed);
	(void)CUDA(driver, NULL, cuDevicePrimaryCtxRelease_v2, device);
	return r;
}

int memory_synchronize(const struct memory *memory)
{
	struct cuda_driver *driver;
	CUcontext current = NULL;
	int r;

	if (!memory->mapped || (memory->device < 0 && !memory->registered))
		return 0;
	r = memory_driver(&driver);
	if (r < 0)
		return r;
	if (CUDA(driver, NULL, cuCtxGetCurrent, &current) == 0 && current)
		return context_synchronize(driver);
	return memory_synchronize_device(MAX(memory->device, 0));
}

void memory_unmap(struct memory *memory)
{
	struct cuda_driver *driver;

	if (!memory->mapped)
		return;
	memory->mapped = false;
	if (memory->device >= 0 || memory->registered)
		if (memory_driver(&driver) < 0)
			return;
	if (memory->registered)
		(void)CUDA(driver, NULL, cuMemHostUnregister, (void *)memory->pointer);
	memory->registered = false;
	if (memory->device >= 0)
		(void)CUDA(driver, NULL, cuMemUnmap, memory->pointer, memory->size);
	else
		(void)mmap((void *)memory->pointer, memory->size, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
			   0);
}

void memory_release(struct memory *memory)
{
	uint64_t pointer = memory->pointer;
	struct cuda_driver *driver;

	memory_unmap(memory);
	if (!memory->reserved)
		return;
	/* First: another thread may get the address as soon as it is free. */
	maps_disclaim(memory);
	if (memory->device < 0)
		munmap((void *)pointer, memory->size);
	else if (!memory->in_range && memory_driver(&driver) == 0)
		(void)CUDA(driver, NULL, cuMemAddressFree, pointer, memory->size);
}

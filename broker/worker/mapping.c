/* SPDX-License-Identifier: MIT */
/*
 * Mappings: the broker's memory, at addresses chosen by the broker.
 *
 * Physical memory arrives as a descriptor. The worker imports the handle, maps the memory
 * into the device's reserved range, and releases the handle at once: the mapping alone
 * keeps the memory. The memory's own device and all devices with peer access get access,
 * for their kernels. A copy between devices without peer access goes through cuMemcpyPeer
 * all the same.
 *
 * Host memory is a memfd shared by broker, GPU and programs. MAP_FIXED_NOREPLACE ensures
 * that the mapping covers nothing else.
 *
 * The broker unmaps exactly the ranges it had mapped, so the table keeps lengths. The
 * broker requests each unmapping only once, and reuses an address only after the answer.
 * To unregister host memory the driver waits for running kernels, so the thread that
 * receives must not do so.
 */
#include "worker/mapping.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <uthash.h>

#include "worker/worker.h"

struct mapping {
	uint64_t address;
	uint64_t length;
	UT_hash_handle hh;
};

static struct mapping *mapping_find(struct worker *worker, uint64_t address)
{
	struct mapping *mapping;

	pthread_mutex_lock(&worker->mappings.lock);
	HASH_FIND(hh, worker->mappings.first, &address, sizeof(address), mapping);
	pthread_mutex_unlock(&worker->mappings.lock);
	return mapping;
}

/* The mapping with exactly the range of the request; NULL. */
static struct mapping *mapping_find_exact(struct worker *worker,
					  const struct wire_request *request)
{
	struct mapping *mapping = mapping_find(worker, request->address);

	return mapping && mapping->length == request->length ? mapping : NULL;
}

static struct mapping *mapping_new(const struct wire_request *request)
{
	struct mapping *mapping = calloc(1, sizeof(*mapping));

	if (!mapping)
		return NULL;
	mapping->address = request->address;
	mapping->length = request->length;
	return mapping;
}

static void mapping_add(struct worker *worker, struct mapping *mapping)
{
	pthread_mutex_lock(&worker->mappings.lock);
	HASH_ADD(hh, worker->mappings.first, address, sizeof(mapping->address), mapping);
	pthread_mutex_unlock(&worker->mappings.lock);
}

static void mapping_free(struct worker *worker, struct mapping *mapping)
{
	pthread_mutex_lock(&worker->mappings.lock);
	HASH_DELETE(hh, worker->mappings.first, mapping);
	pthread_mutex_unlock(&worker->mappings.lock);
	free(mapping);
}

/* Gives access to the device itself and to its peers. */
static int access_set(struct worker *worker, const struct wire_request *request,
		      struct cuda_failure *failure)
{
	CUmemAccessDesc access[WIRE_DEVICES_MAX];
	CUmemAccess_flags flags = request->flags & WIRE_READ_ONLY
					  ? CU_MEM_ACCESS_FLAGS_PROT_READ
					  : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	size_t n = 0;

	for (unsigned int i = 0; i < worker->n_devices; i++) {
		int reaches = i == request->device;
		int r = 0;

		if (!reaches)
			r = CUDA(worker->driver, failure, cuDeviceCanAccessPeer, &reaches,
				 worker->devices[i].handle,
				 worker->devices[request->device].handle);
		if (r < 0)
			return r;
		if (!reaches)
			continue;
		access[n++] = (CUmemAccessDesc){
			.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)i },
			.flags = flags,
		};
	}
	return CUDA(worker->driver, failure, cuMemSetAccess, request->address,
		    request->length, access, n);
}

static int physical_map(struct worker *worker, const struct wire_request *request, int fd,
			struct cuda_failure *failure)
{
	CUmemGenericAllocationHandle handle;
	int r;

	r = CUDA(worker->driver, failure, cuMemImportFromShareableHandle, &handle,
		 (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	if (r < 0)
		return r;
	r = CUDA(worker->driver, failure, cuMemMap, request->address, request->length, 0,
		 handle, 0);
	CUDA(worker->driver, NULL, cuMemRelease, handle);
	if (r < 0)
		return r;
	r = access_set(worker, request, failure);
	if (r < 0)
		CUDA(worker->driver, NULL, cuMemUnmap, request->address, request->length);
	return r;
}

int mapping_map(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	_cleanup_free_ struct mapping *mapping = mapping_new(&job->request);
	int r;

	if (!mapping)
		return -ENOMEM;
	r = physical_map(worker, &job->request, job->fd, failure);
	if (r < 0)
		return r;
	mapping_add(worker, take_ptr(mapping));
	return 0;
}

int mapping_unmap(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	struct mapping *mapping = mapping_find_exact(worker, &job->request);
	int r;

	if (!mapping)
		return -EINVAL;
	r = CUDA(worker->driver, failure, cuMemUnmap, mapping->address, mapping->length);
	if (r < 0)
		return r;
	mapping_free(worker, mapping);
	return 0;
}

/* A file shorter than the mapping would cause SIGBUS at the first use. */
static int file_check(int fd, uint64_t length)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	return st.st_size >= 0 && (uint64_t)st.st_size >= length ? 0 : -EINVAL;
}

static int host_map(struct worker *worker, const struct wire_request *request, int fd,
		    struct cuda_failure *failure)
{
	bool read_only = request->flags & WIRE_READ_ONLY;
	void *memory;
	int r;

	r = file_check(fd, request->length);
	if (r < 0)
		return r;
	memory = mmap((void *)request->address, request->length,
		      read_only ? PROT_READ : PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	r = CUDA(worker->driver, failure, cuMemHostRegister_v2, memory, request->length,
		 CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
			 (read_only ? CU_MEMHOSTREGISTER_READ_ONLY : 0));
	if (r < 0)
		munmap(memory, request->length);
	return r;
}

int mapping_map_host(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	_cleanup_free_ struct mapping *mapping = mapping_new(&job->request);
	int r;

	if (!mapping)
		return -ENOMEM;
	r = host_map(worker, &job->request, job->fd, failure);
	if (r < 0)
		return r;
	mapping_add(worker, take_ptr(mapping));
	return 0;
}

int mapping_unmap_host(struct worker *worker, struct job *job,
		       struct cuda_failure *failure)
{
	struct mapping *mapping = mapping_find_exact(worker, &job->request);
	int r;

	if (!mapping)
		return -EINVAL;
	r = CUDA(worker->driver, failure, cuMemHostUnregister, (void *)mapping->address);
	if (r < 0)
		return r;
	munmap((void *)mapping->address, mapping->length);
	mapping_free(worker, mapping);
	return 0;
}

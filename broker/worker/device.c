/* SPDX-License-Identifier: MIT */
/*
 * Devices and contexts.
 *
 * Address ranges are reserved first, for every device, so that the driver can't place
 * anything at the broker's addresses. Reservations need no context. A context takes a
 * third of a second and hundreds of megabytes, so an owner's worker makes a context at
 * the first use of a device. The mover makes all contexts at its start.
 *
 * The context is the primary context, shared with other libraries in the process.
 * Contexts are never destroyed; they end with the process, even when a kernel hangs. The
 * first context also registers the staging area, for all contexts.
 *
 * Each thread of the pool has its own stream on each device. So transfers run side by
 * side, and a thread waits only for its own transfer.
 */
#include "worker/device.h"

#include <errno.h>

#include "base/clock.h"
#include "worker/worker.h"

#define CONTEXT_WAIT_MS	 2000
#define CONTEXT_PAUSE_MS 20

static _Thread_local int thread_device = -1;
static _Thread_local CUstream thread_streams[WIRE_DEVICES_MAX];

static int device_reserve(struct worker *worker, unsigned int ordinal,
			  struct cuda_failure *failure)
{
	uint64_t base = WIRE_DEVICE_BASE + ordinal * WIRE_DEVICE_SPAN;
	CUdeviceptr address;
	int r;

	r = CUDA(worker->driver, failure, cuMemAddressReserve, &address, WIRE_DEVICE_SPAN,
		 0, base, 0);
	if (r < 0)
		return r;
	if (address != base) {
		CUDA(worker->driver, NULL, cuMemAddressFree, address, WIRE_DEVICE_SPAN);
		return -EADDRINUSE;
	}
	return 0;
}

static int device_init(struct worker *worker, unsigned int ordinal,
		       struct cuda_failure *failure)
{
	struct device *device = &worker->devices[ordinal];
	int r;

	r = CUDA(worker->driver, failure, cuDeviceGet, &device->handle, (int)ordinal);
	if (r < 0)
		return r;
	return device_reserve(worker, ordinal, failure);
}

int devices_init(struct worker *worker, struct cuda_failure *failure)
{
	int n_devices, r;

	r = CUDA(worker->driver, failure, cuDeviceGetCount, &n_devices);
	if (r < 0)
		return r;
	worker->n_devices = (unsigned int)MIN(n_devices, WIRE_DEVICES_MAX);
	for (unsigned int i = 0; i < worker->n_devices; i++) {
		r = device_init(worker, i, failure);
		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * A context takes half a gigabyte of the device. The previous process, after a fault, may
 * hold as much for another moment (process/checkpoint.c).
 */
static int context_make(struct worker *worker, struct device *device,
			struct cuda_failure *failure)
{
	const struct timespec pause = { .tv_nsec = CONTEXT_PAUSE_MS * 1000000 };
	const int64_t until = clock_ms() + CONTEXT_WAIT_MS;
	int r;

	do {
		r = CUDA(worker->driver, failure, cuDevicePrimaryCtxRetain,
			 &device->context, device->handle);
		if (r == 0 || failure->result != CUDA_ERROR_OUT_OF_MEMORY)
			return r;
		device->context = NULL;
		nanosleep(&pause, NULL);
	} while (clock_ms() < until);
	return r;
}

/* Makes the context current; makes the context first where there is none. */
static int context_enter(struct worker *worker, struct device *device,
			 struct cuda_failure *failure)
{
	int r = 0;

	if (!device->context)
		r = context_make(worker, device, failure);
	if (r == 0)
		r = CUDA(worker->driver, failure, cuCtxSetCurrent, device->context);
	if (r < 0 || worker->registered)
		return r;
	r = CUDA(worker->driver, failure, cuMemHostRegister_v2, worker->staging,
		 worker->staging_size, CU_MEMHOSTREGISTER_PORTABLE);
	worker->registered = r == 0;
	return r;
}

int device_enter(struct worker *worker, unsigned int ordinal,
		 struct cuda_failure *failure)
{
	int r;

	if (thread_device == (int)ordinal)
		return 0;
	if (ordinal >= worker->n_devices)
		return -ENODEV;
	thread_device = -1;
	pthread_mutex_lock(&worker->context_lock);
	r = context_enter(worker, &worker->devices[ordinal], failure);
	pthread_mutex_unlock(&worker->context_lock);
	if (r < 0)
		return r;
	thread_device = (int)ordinal;
	return 0;
}

int devices_make(struct worker *worker, struct cuda_failure *failure)
{
	for (unsigned int i = 0; i < worker->n_devices; i++) {
		int r = device_enter(worker, i, failure);

		if (r < 0)
			return r;
	}
	return 0;
}

int device_stream(struct worker *worker, CUstream *ret_stream,
		  struct cuda_failure *failure)
{
	CUstream *stream = &thread_streams[thread_device];
	int r;

	if (!*stream) {
		r = CUDA(worker->driver, failure, cuStreamCreate, stream,
			 CU_STREAM_NON_BLOCKING);
		if (r < 0)
			return r;
	}
	*ret_stream = *stream;
	return 0;
}

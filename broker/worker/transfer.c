/* SPDX-License-Identifier: MIT */
/*
 * Transfers: queued on the job's stream, then waited for.
 *
 * Device and host memory are handled alike, as device addresses: host memory is mapped
 * for the device at its address in this process. All calls name the direction (DtoH,
 * HtoD, DtoD). cuMemcpy would take an unknown address for plain memory of this process,
 * and reading there would crash.
 *
 * A fill by memset needs a pattern of 1, 2 or 4 bytes, and an aligned address and length.
 * All other fills first write a seed, one memset of width 1 for each byte of the pattern
 * (a column each). Then the filled part is copied behind itself, doubling each time, at
 * the speed of a copy.
 *
 * WIRE_BY_CPU is for managed memory on the host: a copy by the GPU would migrate the
 * memory to the GPU.
 */
#include "worker/transfer.h"

#include <errno.h>
#include <string.h>

#include "protocol/wire.h"

#include "worker/worker.h"

#define SEED_SIZE 65536u

int transfer_read(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	const struct wire_request *request = &job->request;
	int r;

	if (request->flags & WIRE_BY_CPU) {
		memcpy(worker->staging + request->offset, (void *)request->address,
		       request->length);
		return 0;
	}
	r = CUDA(worker->driver, failure, cuMemcpyDtoHAsync_v2,
		 worker->staging + request->offset, request->address, request->length,
		 job->stream);
	return stream_wait(worker, job, r, failure);
}

int transfer_write(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	const struct wire_request *request = &job->request;
	int r;

	if (request->flags & WIRE_BY_CPU) {
		memcpy((void *)request->address, worker->staging + request->offset,
		       request->length);
		return 0;
	}
	r = CUDA(worker->driver, failure, cuMemcpyHtoDAsync_v2, request->address,
		 worker->staging + request->offset, request->length, job->stream);
	return stream_wait(worker, job, r, failure);
}

/*
 * Whether both ends are device memory, on different devices; host memory is visible to
 * all.
 */
static bool copy_is_between_devices(const struct wire_request *request)
{
	return request->device != request->source_device &&
	       !wire_is_host(request->address, request->length) &&
	       !wire_is_host(request->source, request->length);
}

static int copy_between_devices(struct worker *worker, struct job *job,
				struct cuda_failure *failure)
{
	const struct wire_request *request = &job->request;
	int r;

	/*
	 * Makes the source's context where there is none; then enters the job's device
	 * again.
	 */
	r = device_enter(worker, request->source_device, failure);
	if (r < 0)
		return r;
	r = device_enter(worker, request->device, failure);
	if (r < 0)
		return r;
	return CUDA(worker->driver, failure, cuMemcpyPeerAsync, request->address,
		    worker->devices[request->device].context, request->source,
		    worker->devices[request->source_device].context, request->length,
		    job->stream);
}

int transfer_copy(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	const struct wire_request *request = &job->request;
	int r;

	if (copy_is_between_devices(request))
		r = copy_between_devices(worker, job, failure);
	else
		r = CUDA(worker->driver, failure, cuMemcpyDtoDAsync_v2, request->address,
			 request->source, request->length, job->stream);
	return stream_wait(worker, job, r, failure);
}

/* Size of the shortest pattern that repeats to the same bytes. */
static unsigned int pattern_reduce(uint64_t pattern, unsigned int size)
{
	while (size > 1) {
		unsigned int half = size / 2 * 8;
		uint64_t mask = (1ull << half) - 1;

		if ((pattern & mask) != (pattern >> half & mask))
			break;
		size /= 2;
	}
	return size;
}

static int fill_uniform(struct worker *worker, struct job *job, unsigned int size,
			struct cuda_failure *failure)
{
	uint64_t address = job->request.address;
	uint64_t n = job->request.length / size;
	uint64_t pattern = job->request.pattern;

	switch (size) {
	case 1:
		return CUDA(worker->driver, failure, cuMemsetD8Async, address,
			    (unsigned char)pattern, n, job->stream);
	case 2:
		return CUDA(worker->driver, failure, cuMemsetD16Async, address,
			    (unsigned short)pattern, n, job->stream);
	default:
		return CUDA(worker->driver, failure, cuMemsetD32Async, address,
			    (unsigned int)pattern, n, job->stream);
	}
}

/* Writes the first bytes, column by column. */
static int fill_seed(struct worker *worker, struct job *job, uint64_t length,
		     unsigned int size, struct cuda_failure *failure)
{
	int r = 0;

	for (unsigned int i = 0; r == 0 && i < size && i < length; i++)
		r = CUDA(worker->driver, failure, cuMemsetD2D8Async,
			 job->request.address + i, size,
			 (unsigned char)(job->request.pattern >> (8 * i)), 1,
			 (length - i + size - 1) / size, job->stream);
	return r;
}

static int fill_by_doubling(struct worker *worker, struct job *job, unsigned int size,
			    struct cuda_failure *failure)
{
	uint64_t address = job->request.address;
	uint64_t length = job->request.length;
	uint64_t done = MIN(length, (uint64_t)SEED_SIZE);
	int r;

	r = fill_seed(worker, job, done, size, failure);
	while (r == 0 && done < length) {
		uint64_t n = MIN(done, length - done);

		r = CUDA(worker->driver, failure, cuMemcpyDtoDAsync_v2, address + done,
			 address, n, job->stream);
		done += n;
	}
	return r;
}

/* Copies from the host migrate no pages of managed memory; a memset would. */
static int fill_by_copies(struct worker *worker, struct job *job, unsigned int size,
			  struct cuda_failure *failure)
{
	const struct wire_request *request = &job->request;
	uint64_t length = MIN(request->length, (uint64_t)SEED_SIZE);
	_cleanup_free_ uint8_t *bytes = malloc(length);
	int r = 0;

	if (!bytes)
		return -ENOMEM;
	for (uint64_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)(request->pattern >> (8 * (i % size)));
	for (uint64_t done = 0; r == 0 && done < request->length; done += length) {
		length = MIN(length, request->length - done);
		r = CUDA(worker->driver, failure, cuMemcpyHtoDAsync_v2,
			 request->address + done, bytes, length, job->stream);
	}
	return stream_wait(worker, job, r, failure);
}

int transfer_fill(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	const struct wire_request *request = &job->request;
	unsigned int size = pattern_reduce(request->pattern, request->pattern_size);
	int r;

	if (request->flags & WIRE_BY_CPU && size == 1) {
		memset((void *)request->address, (int)(request->pattern & 0xff),
		       request->length);
		return 0;
	}
	if (request->flags & WIRE_STAY)
		return fill_by_copies(worker, job, size, failure);
	if (size <= 4 && !(request->address % size) && !(request->length % size))
		r = fill_uniform(worker, job, size, failure);
	else
		r = fill_by_doubling(worker, job, size, failure);
	return stream_wait(worker, job, r, failure);
}

/* SPDX-License-Identifier: MIT */
/*
 * Memory of this process: cuMemAlloc, the stream-ordered allocator, and managed memory
 * (managed.c).
 *
 * The memory is zeroed before the answer with its address. The driver has been seen to
 * zero pages, but does not promise so, and the pages may come from another user.
 */
#include "worker/memory.h"

#include "worker/managed.h"
#include "worker/worker.h"

static int memory_release(struct worker *worker, struct job *job, uint64_t address,
			  struct cuda_failure *failure)
{
	if (job->request.flags & WIRE_ASYNC)
		return CUDA(worker->driver, failure, cuMemFreeAsync, address,
			    job->stream);
	return CUDA(worker->driver, failure, cuMemFree_v2, address);
}

static int memory_zero(struct worker *worker, struct job *job, uint64_t address,
		       struct cuda_failure *failure)
{
	int r;

	r = CUDA(worker->driver, failure, cuMemsetD8Async, address, 0,
		 job->request.length, job->stream);
	return stream_wait(worker, job, r, failure);
}

int memory_alloc(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	CUdeviceptr address;
	int r;

	if (job->request.flags & WIRE_MANAGED)
		return managed_alloc(worker, job, failure);
	if (job->request.flags & WIRE_ASYNC)
		r = CUDA(worker->driver, failure, cuMemAllocAsync, &address,
			 job->request.length, job->stream);
	else
		r = CUDA(worker->driver, failure, cuMemAlloc_v2, &address,
			 job->request.length);
	if (r < 0)
		return r;
	r = memory_zero(worker, job, address, failure);
	if (r < 0) {
		memory_release(worker, job, address, NULL);
		return r;
	}
	job->value[0] = address;
	return 0;
}

int memory_free(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	int r;

	r = memory_release(worker, job, job->request.address, failure);
	if (!(job->request.flags & WIRE_ASYNC))
		return r;
	return stream_wait(worker, job, r, failure);
}

int memory_info(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	size_t n_free, n_total;
	int r;

	r = CUDA(worker->driver, failure, cuMemGetInfo_v2, &n_free, &n_total);
	if (r < 0)
		return r;
	job->value[0] = n_free;
	job->value[1] = n_total;
	return 0;
}

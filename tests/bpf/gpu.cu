/* SPDX-License-Identifier: MIT */
/* What gpu.bash traces: known calls of the CUDA runtime. */
#include <cuda_runtime.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIB (1ull << 20)

#define TRY(call)                                                                        \
	do {                                                                             \
		cudaError_t error = (call);                                              \
                                                                                         \
		if (error != cudaSuccess) {                                              \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));   \
			exit(2);                                                         \
		}                                                                        \
	} while (0)

__global__ void gpumem_increment(float *p)
{
	p[blockIdx.x * blockDim.x + threadIdx.x] += 1;
}

static void launches(float *p)
{
	for (int i = 0; i < 1000; i++)
		gpumem_increment<<<4, 64>>>(p);
	TRY(cudaDeviceSynchronize());
}

static void prefetch(void *p, size_t size, int device)
{
#if CUDART_VERSION >= 13000
	struct cudaMemLocation location = {};

	location.type = device < 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
	location.id = device < 0 ? 0 : device;
	TRY(cudaMemPrefetchAsync(p, size, location, 0, 0));
#else
	TRY(cudaMemPrefetchAsync(p, size, device, 0));
#endif
}

static void read_mostly(void *p, size_t size)
{
#if CUDART_VERSION >= 13000
	struct cudaMemLocation location = {};

	location.type = cudaMemLocationTypeDevice;
	TRY(cudaMemAdvise(p, size, cudaMemAdviseSetReadMostly, location));
#else
	TRY(cudaMemAdvise(p, size, cudaMemAdviseSetReadMostly, 0));
#endif
}

static void all(void)
{
	float *a, *b, *c, *managed, *async, *host, *none;

	TRY(cudaMalloc((void **)&a, 3 * MIB));
	TRY(cudaMalloc((void **)&b, 5 * MIB));
	TRY(cudaMalloc((void **)&c, 7 * MIB));
	TRY(cudaMallocManaged((void **)&managed, 11 * MIB));
	TRY(cudaMallocAsync((void **)&async, 13 * MIB, 0));
	TRY(cudaMallocHost((void **)&host, 17 * MIB));
	prefetch(managed, 11 * MIB, 0);
	prefetch(managed, 11 * MIB, -1);
	read_mostly(managed, 11 * MIB);
	launches(a);
	TRY(cudaFree(b));
	if (cudaMalloc((void **)&none, 1ull << 50) != cudaErrorMemoryAllocation)
		exit(3);
}

static size_t free_bytes(void)
{
	size_t free = 0, total;

	TRY(cudaMemGetInfo(&free, &total));
	return free;
}

static void reset(void)
{
	void *a, *async;

	TRY(cudaFree(0));
	printf("free at first %zu\n", free_bytes());
	TRY(cudaMalloc(&a, 256 * MIB));
	TRY(cudaMallocAsync(&async, 512 * MIB, 0));
	TRY(cudaDeviceSynchronize());
	printf("free with 256 MiB and 512 MiB from the pool %zu\n", free_bytes());
	TRY(cudaDeviceReset());
	printf("free after the reset %zu\n", free_bytes());
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static void times(void)
{
	float *p;
	void *q;

	TRY(cudaMalloc((void **)&p, MIB));
	for (int round = 0; round < 3; round++) {
		double start = now();

		for (int i = 0; i < 5000; i++) {
			TRY(cudaMalloc(&q, 4096));
			TRY(cudaFree(q));
		}
		double middle = now();
		for (int i = 0; i < 50000; i++) {
			TRY(cudaMallocAsync(&q, 4096, 0));
			TRY(cudaFreeAsync(q, 0));
		}
		TRY(cudaDeviceSynchronize());
		double end = now();
		for (int i = 0; i < 100000; i++)
			gpumem_increment<<<4, 64>>>(p);
		TRY(cudaDeviceSynchronize());
		double launched = now();
		printf("cudaMalloc+cudaFree %.3f us, cudaMallocAsync+cudaFreeAsync %.3f us, "
		       "launch %.3f us\n",
		       (middle - start) / 5000, (end - middle) / 50000,
		       (launched - end) / 100000);
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "all";
	float *p;

	if (!strcmp(what, "all")) {
		all();
	} else if (!strcmp(what, "launch")) {
		TRY(cudaMalloc((void **)&p, MIB));
		launches(p);
	} else if (!strcmp(what, "reset")) {
		reset();
	} else if (!strcmp(what, "time")) {
		times();
	}
	fflush(stdout);
	_Exit(0); /* what is held is held until the end */
}

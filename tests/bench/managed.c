/* SPDX-License-Identifier: MIT */
/*
 * Managed memory. Prefetches to the GPU and back through the file, compared with the same
 * calls made directly in this process. Reads of `data` with pages on the GPU and on the
 * host, compared with device memory. Last, whether a read moves pages: a prefetch, a read
 * and the same prefetch again, which has nothing to do unless the read moved pages.
 *
 * BENCH_SIZE sets the bytes, BENCH_ROUNDS the rounds.
 */
#include "bench.h"

#include "base/text.h"
#include "cuda/driver.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define BLOCK ((size_t)1 << 20)

enum {
	TO_DEVICE,
	TO_HOST,
	STAY_ON_DEVICE, /* prefetch again after a read */
	STAY_ON_HOST,
	N_PREFETCHES,
};

static const char *const prefetch_names[N_PREFETCHES] = {
	[TO_DEVICE] = "prefetch to device",
	[TO_HOST] = "prefetch to cpu",
	[STAY_ON_DEVICE] = "prefetch to device, read there before",
	[STAY_ON_HOST] = "prefetch to cpu, read there before",
};

enum {
	READ_DEVICE_KIND,
	READ_ON_DEVICE,
	READ_ON_HOST,
	N_READS,
};

static const char *const read_names[N_READS] = {
	[READ_DEVICE_KIND] = "read device memory",
	[READ_ON_DEVICE] = "read managed memory on the device",
	[READ_ON_HOST] = "read managed memory on the host",
};

struct direct {
	struct cuda_driver *driver;
	CUcontext context;
	CUstream stream;
	CUdeviceptr address;
};

static struct series ours[N_PREFETCHES], theirs[N_PREFETCHES], reads[N_READS];
static char *block;

static void direct_open(struct direct *direct, size_t size)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	struct cuda_driver *driver;
	CUdevice device;

	if (cuda_driver_open(bench_library(), &driver, &why) < 0)
		die("%s", text_string(&why));
	if (CUDA(driver, NULL, cuDeviceGet, &device, 0) < 0 ||
	    CUDA(driver, NULL, cuDevicePrimaryCtxRetain, &direct->context, device) < 0 ||
	    CUDA(driver, NULL, cuCtxSetCurrent, direct->context) < 0 ||
	    CUDA(driver, NULL, cuStreamCreate, &direct->stream, CU_STREAM_NON_BLOCKING) <
		    0 ||
	    CUDA(driver, NULL, cuMemAllocManaged, &direct->address, size,
		 CU_MEM_ATTACH_GLOBAL) < 0 ||
	    CUDA(driver, NULL, cuMemsetD8Async, direct->address, 7, size,
		 direct->stream) < 0 ||
	    CUDA(driver, NULL, cuStreamSynchronize, direct->stream) < 0)
		die("no managed memory on device 0 of %s", bench_library());
	direct->driver = driver;
}

static void direct_prefetch(const struct direct *direct, size_t size, bool host)
{
	struct cuda_driver *driver = direct->driver;
	CUmemLocation location = { .type = host ? CU_MEM_LOCATION_TYPE_HOST
						: CU_MEM_LOCATION_TYPE_DEVICE };

	if (CUDA(driver, NULL, cuMemPrefetchAsync_v2, direct->address, size, location, 0,
		 direct->stream) < 0 ||
	    CUDA(driver, NULL, cuStreamSynchronize, direct->stream) < 0)
		die("cuMemPrefetchAsync_v2 failed");
}

static void measure_direct(const struct direct *direct, size_t size, int which)
{
	double start = now_s();

	direct_prefetch(direct, size, which == TO_HOST || which == STAY_ON_HOST);
	series_add(&theirs[which], (now_s() - start) * 1e3);
}

static void measure_prefetch(int prefetch, int which)
{
	double start = now_s();

	command(prefetch, which == TO_HOST || which == STAY_ON_HOST
				  ? "managed cpu\n"
				  : "managed device:0\n");
	series_add(&ours[which], (now_s() - start) * 1e3);
}

static void measure_read(int fd, size_t size, int which)
{
	double start = now_s();

	for (size_t offset = 0; offset < size; offset += BLOCK)
		if (pread(fd, block, BLOCK, (off_t)offset) != (ssize_t)BLOCK)
			die("%s: %m", read_names[which]);
	series_add(&reads[which], (double)size / (now_s() - start) * 1e-9);
}

/* The memory is on the host before and after. */
static void measure_round(const struct direct *direct, int prefetch, int managed,
			  int device, size_t size)
{
	measure_read(device, size, READ_DEVICE_KIND);
	measure_direct(direct, size, TO_DEVICE);
	measure_prefetch(prefetch, TO_DEVICE);
	measure_read(managed, size, READ_ON_DEVICE);
	measure_direct(direct, size, STAY_ON_DEVICE);
	measure_prefetch(prefetch, STAY_ON_DEVICE);
	measure_direct(direct, size, TO_HOST);
	measure_prefetch(prefetch, TO_HOST);
	measure_read(managed, size, READ_ON_HOST);
	measure_direct(direct, size, STAY_ON_HOST);
	measure_prefetch(prefetch, STAY_ON_HOST);
}

static void print(void)
{
	char what[128];

	for (int i = 0; i < N_PREFETCHES; i++) {
		series_print(prefetch_names[i], &ours[i], "ms");
		snprintf(what, sizeof(what), "the same called directly%s",
			 i < STAY_ON_DEVICE ? "" : ", not read");
		series_print(what, &theirs[i], "ms");
		ratio_print("  through the file / directly", &ours[i], &theirs[i]);
	}
	for (int i = 0; i < N_READS; i++)
		series_print(read_names[i], &reads[i], "GB/s");
	ratio_print("  managed on the device / device", &reads[READ_ON_DEVICE],
		    &reads[READ_DEVICE_KIND]);
	ratio_print("  managed on the host / device", &reads[READ_ON_HOST],
		    &reads[READ_DEVICE_KIND]);
}

static void forget_first_round(void)
{
	for (int i = 0; i < N_PREFETCHES; i++)
		ours[i].n = theirs[i].n = 0;
	for (int i = 0; i < N_READS; i++)
		reads[i].n = 0;
}

int main(void)
{
	size_t size = bench_number("BENCH_SIZE", (size_t)256 << 20) / BLOCK * BLOCK;
	size_t rounds = bench_number("BENCH_ROUNDS", 9);
	int alloc, prefetch, managed, device;
	struct direct direct;
	struct mount broker;
	char line[128];

	block = aligned_alloc(4096, BLOCK);
	if (!block)
		die("no memory");
	mount_broker(&broker);
	direct_open(&direct, size);
	alloc = mount_open(&broker, "control/alloc", O_RDWR);
	snprintf(line, sizeof(line), "managed %zu kind=managed\ndevice %zu\n", size,
		 size);
	command(alloc, line);
	prefetch = mount_open(&broker, "control/fill", O_RDWR);
	command(prefetch, "managed u8:7\n");
	close(prefetch);
	prefetch = mount_open(&broker, "control/prefetch", O_RDWR);
	managed = mount_open(&broker, "allocations/managed/data", O_RDONLY);
	device = mount_open(&broker, "allocations/device/data", O_RDONLY);

	direct_prefetch(&direct, size, true);
	command(prefetch, "managed cpu\n");
	for (size_t round = 0; round <= rounds; round++) {
		measure_round(&direct, prefetch, managed, device, size);
		if (!round)
			forget_first_round();
	}
	print();
	free(block);
	close(alloc);
	close(prefetch);
	close(managed);
	close(device);
	cuda_driver_free(direct.driver);
	return 0;
}

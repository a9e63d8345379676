/* SPDX-License-Identifier: MIT */
/*
 * Pairs of alloc and free through held descriptors, by kind and size, beside the same
 * done directly in this process: cuMemAlloc for device, direct and async memory,
 * cuMemAllocManaged for managed memory, and a memfd with its pages for host memory.
 */
#include "bench.h"

#include "base/text.h"
#include "cuda/driver.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

struct direct {
	struct cuda_driver *driver;
	CUcontext context;
};

enum yardstick {
	DIRECT,
	MANAGED,
	MEMFD,
	N_YARDSTICKS,
};

static const char *const yardsticks[N_YARDSTICKS] = {
	[DIRECT] = "cuMemAlloc",
	[MANAGED] = "cuMemAllocManaged",
	[MEMFD] = "memfd",
};

static const struct {
	const char *name;
	size_t size;
	unsigned int n_pairs;
} sizes[] = {
	{ "4K", 4 << 10, 20 },
	{ "2M", 2 << 20, 20 },
	{ "64M", 64 << 20, 3 },
};

static const struct {
	const char *name;
	enum yardstick yardstick;
} kinds[] = {
	{ "device", DIRECT },	{ "direct", DIRECT }, { "async", DIRECT },
	{ "managed", MANAGED }, { "host", MEMFD },
};

static void direct_open(struct direct *direct)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	struct cuda_driver *driver;
	CUdevice device;

	if (cuda_driver_open(bench_library(), &driver, &why) < 0)
		die("%s", text_string(&why));
	if (CUDA(driver, NULL, cuDeviceGet, &device, 0) < 0 ||
	    CUDA(driver, NULL, cuDevicePrimaryCtxRetain, &direct->context, device) < 0 ||
	    CUDA(driver, NULL, cuCtxSetCurrent, direct->context) < 0)
		die("no context on device 0 of %s", bench_library());
	direct->driver = driver;
}

static void pair_direct(struct direct *direct, size_t size)
{
	CUdeviceptr address;

	if (CUDA(direct->driver, NULL, cuMemAlloc_v2, &address, size) < 0 ||
	    CUDA(direct->driver, NULL, cuMemFree_v2, address) < 0)
		die("cuMemAlloc of %zu failed", size);
}

static void pair_managed(struct direct *direct, size_t size)
{
	CUdeviceptr address;

	if (CUDA(direct->driver, NULL, cuMemAllocManaged, &address, size,
		 CU_MEM_ATTACH_GLOBAL) < 0 ||
	    CUDA(direct->driver, NULL, cuMemFree_v2, address) < 0)
		die("cuMemAllocManaged of %zu failed", size);
}

static void pair_memfd(struct direct *direct, size_t size)
{
	int fd = memfd_create("bench", MFD_CLOEXEC);

	(void)direct;
	if (fd < 0 || fallocate(fd, 0, 0, (off_t)size) < 0 || close(fd) < 0)
		die("a memfd of %zu: %m", size);
}

static double measure_yardstick(struct direct *direct, enum yardstick yardstick,
				size_t size, unsigned int n_pairs)
{
	static void (*const pairs[N_YARDSTICKS])(struct direct *, size_t) = {
		[DIRECT] = pair_direct,
		[MANAGED] = pair_managed,
		[MEMFD] = pair_memfd,
	};
	double start = now_s();

	for (unsigned int i = 0; i < n_pairs; i++)
		pairs[yardstick](direct, size);
	return (now_s() - start) / n_pairs * 1e6;
}

static double measure_broker(int alloc, int release, const char *kind, size_t size,
			     unsigned int n_pairs)
{
	double start = now_s();
	char line[128];

	snprintf(line, sizeof(line), "x %zu kind=%s\n", size, kind);
	for (unsigned int i = 0; i < n_pairs; i++) {
		command(alloc, line);
		command(release, "x\n");
	}
	return (now_s() - start) / n_pairs * 1e6;
}

static void print(const char *size, const struct series *ours,
		  const struct series *theirs)
{
	char what[64];

	for (unsigned int i = 0; i < N_YARDSTICKS; i++) {
		snprintf(what, sizeof(what), "%s %s", yardsticks[i], size);
		series_print(what, &theirs[i], "us");
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(kinds); i++) {
		snprintf(what, sizeof(what), "alloc and free %s %s", kinds[i].name, size);
		series_print(what, &ours[i], "us");
		snprintf(what, sizeof(what), "%s %s / %s", kinds[i].name, size,
			 yardsticks[kinds[i].yardstick]);
		ratio_print(what, &ours[i], &theirs[kinds[i].yardstick]);
	}
}

static void measure(int alloc, int release, struct direct *direct, unsigned int which)
{
	static struct series ours[ARRAY_SIZE(kinds)], theirs[N_YARDSTICKS];
	size_t rounds = bench_number("BENCH_ROUNDS", 21);
	unsigned int n_pairs = sizes[which].n_pairs;
	size_t size = sizes[which].size;

	for (unsigned int i = 0; i < N_YARDSTICKS; i++)
		theirs[i].n = 0;
	for (unsigned int i = 0; i < ARRAY_SIZE(kinds); i++)
		ours[i].n = 0;
	for (size_t round = 0; round < rounds; round++) {
		for (unsigned int i = 0; i < N_YARDSTICKS; i++)
			series_add(&theirs[i],
				   measure_yardstick(direct, i, size, n_pairs));
		for (unsigned int i = 0; i < ARRAY_SIZE(kinds); i++)
			series_add(&ours[i], measure_broker(alloc, release, kinds[i].name,
							    size, n_pairs));
	}
	print(sizes[which].name, ours, theirs);
}

int main(void)
{
	struct direct direct;
	struct mount broker;
	int alloc, release;

	mount_broker(&broker);
	direct_open(&direct);
	alloc = mount_open(&broker, "control/alloc", O_RDWR);
	release = mount_open(&broker, "control/free", O_RDWR);
	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++)
		measure(alloc, release, &direct, i);
	close(alloc);
	close(release);
	cuda_driver_free(direct.driver);
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * Pairs of alloc and free through held descriptors, beside pairs of cuMemAlloc and
 * cuMemFree called directly in this process, by size.
 */
#include "bench.h"

#include "base/text.h"
#include "cuda/driver.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define PAIRS 20

static const struct {
	const char *name;
	size_t size;
} sizes[] = {
	{ "4K", 4 << 10 },
	{ "2M", 2 << 20 },
	{ "64M", 64 << 20 },
};

static const char *const kinds[] = { "device", "direct", "async", "host" };

struct direct {
	struct cuda_driver *driver;
	CUcontext context;
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

static double measure_direct(struct direct *direct, size_t size)
{
	double start = now_s();

	for (unsigned int i = 0; i < PAIRS; i++) {
		CUdeviceptr address;

		if (CUDA(direct->driver, NULL, cuMemAlloc_v2, &address, size) < 0 ||
		    CUDA(direct->driver, NULL, cuMemFree_v2, address) < 0)
			die("cuMemAlloc of %zu failed", size);
	}
	return (now_s() - start) / PAIRS * 1e6;
}

static double measure_broker(int alloc, int release, const char *kind, size_t size)
{
	double start = now_s();
	char line[128];

	snprintf(line, sizeof(line), "x %zu kind=%s\n", size, kind);
	for (unsigned int i = 0; i < PAIRS; i++) {
		command(alloc, line);
		command(release, "x\n");
	}
	return (now_s() - start) / PAIRS * 1e6;
}

static void measure(int alloc, int release, struct direct *direct, unsigned int which)
{
	static struct series ours[ARRAY_SIZE(kinds)], theirs;
	size_t rounds = bench_number("BENCH_ROUNDS", 21);
	size_t size = sizes[which].size;
	char what[64];

	theirs.n = 0;
	for (unsigned int i = 0; i < ARRAY_SIZE(kinds); i++)
		ours[i].n = 0;
	for (size_t round = 0; round < rounds; round++) {
		series_add(&theirs, measure_direct(direct, size));
		for (unsigned int i = 0; i < ARRAY_SIZE(kinds); i++)
			series_add(&ours[i],
				   measure_broker(alloc, release, kinds[i], size));
	}
	snprintf(what, sizeof(what), "cuMemAlloc and cuMemFree %s", sizes[which].name);
	series_print(what, &theirs, "us");
	for (unsigned int i = 0; i < ARRAY_SIZE(kinds); i++) {
		snprintf(what, sizeof(what), "alloc and free %s %s", kinds[i],
			 sizes[which].name);
		series_print(what, &ours[i], "us");
		snprintf(what, sizeof(what), "%s %s / cuMemAlloc", kinds[i],
			 sizes[which].name);
		ratio_print(what, &ours[i], &theirs);
	}
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

/* SPDX-License-Identifier: MIT */
/*
 * Launches through an open descriptor. First an empty kernel and the wait for its end,
 * compared with cuLaunchKernel and cuStreamSynchronize in this process and with a write
 * dropped by a daemon. Then a thousand launches with wait=0 up to the end of the last,
 * compared with the same calls made directly.
 */
#include "bench.h"

#include "base/text.h"
#include "cuda/driver.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CALLS 300
#define QUEUE 1000

static const char ptx[] = ".version 7.0\n"
			  ".target sm_52\n"
			  ".address_size 64\n"
			  ".visible .entry nothing()\n"
			  "{\n"
			  "\tret;\n"
			  "}\n";

static const char line[] = "grid=1 block=32\n";
static const char queued[] = "grid=1 block=32 wait=0\n";

struct direct {
	struct cuda_driver *driver;
	CUstream stream;
	CUfunction function;
};

static void direct_open(struct direct *direct)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	struct cuda_driver *driver;
	CUcontext context;
	CUmodule module;
	CUdevice device;

	if (cuda_driver_open(bench_library(), &driver, &why) < 0)
		die("%s", text_string(&why));
	if (CUDA(driver, NULL, cuDeviceGet, &device, 0) < 0 ||
	    CUDA(driver, NULL, cuDevicePrimaryCtxRetain, &context, device) < 0 ||
	    CUDA(driver, NULL, cuCtxSetCurrent, context) < 0 ||
	    CUDA(driver, NULL, cuStreamCreate, &direct->stream, CU_STREAM_NON_BLOCKING) <
		    0 ||
	    CUDA(driver, NULL, cuModuleLoadDataEx, &module, ptx, 0, NULL, NULL) < 0 ||
	    CUDA(driver, NULL, cuModuleGetFunction, &direct->function, module,
		 "nothing") < 0)
		die("no kernels on device 0 of %s", bench_library());
	direct->driver = driver;
}

static void direct_launch(const struct direct *direct)
{
	if (CUDA(direct->driver, NULL, cuLaunchKernel, direct->function, 1, 1, 1, 32, 1,
		 1, 0, direct->stream, NULL, NULL) < 0)
		die("the kernel can't be launched directly");
}

static void direct_wait(const struct direct *direct)
{
	if (CUDA(direct->driver, NULL, cuStreamSynchronize, direct->stream) < 0)
		die("the kernel failed");
}

static double measure_direct(const struct direct *direct)
{
	double start = now_s();

	for (unsigned int i = 0; i < CALLS; i++) {
		direct_launch(direct);
		direct_wait(direct);
	}
	return (now_s() - start) / CALLS * 1e6;
}

static double measure_direct_queue(const struct direct *direct)
{
	double start = now_s();

	for (unsigned int i = 0; i < QUEUE; i++)
		direct_launch(direct);
	direct_wait(direct);
	return (now_s() - start) / QUEUE * 1e6;
}

static double measure_writes(int fd)
{
	double start = now_s();

	for (unsigned int i = 0; i < CALLS; i++)
		command(fd, line);
	return (now_s() - start) / CALLS * 1e6;
}

static double measure_queue(int launch, int synchronize)
{
	double start = now_s();

	for (unsigned int i = 0; i < QUEUE; i++)
		command(launch, queued);
	command(synchronize, "default\n");
	return (now_s() - start) / QUEUE * 1e6;
}

static void load(const struct mount *mount)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/modules/bench", mount->path);
	if (mkdir(path, 0755) < 0)
		die("making modules/bench: %m");
	fd = mount_open(mount, "modules/bench/image", O_WRONLY | O_TRUNC);
	if (write(fd, ptx, strlen(ptx)) != (ssize_t)strlen(ptx) || close(fd) < 0)
		die("loading modules/bench: %m");
}

int main(void)
{
	static struct series ours, theirs, empties, queue, direct_queue;
	size_t rounds = bench_number("BENCH_ROUNDS", 21);
	int launch, synchronize, drop;
	struct mount broker, empty;
	struct direct direct;

	mount_broker(&broker);
	mount_empty(&empty);
	direct_open(&direct);
	load(&broker);
	launch = mount_open(&broker, "modules/bench/functions/nothing/launch", O_RDWR);
	synchronize = mount_open(&broker, "control/synchronize", O_RDWR);
	drop = mount_open(&empty, "control", O_RDWR);

	for (size_t round = 0; round < rounds; round++) {
		series_add(&ours, measure_writes(launch));
		series_add(&theirs, measure_direct(&direct));
		series_add(&empties, measure_writes(drop));
		series_add(&queue, measure_queue(launch, synchronize));
		series_add(&direct_queue, measure_direct_queue(&direct));
	}
	series_print("launch and wait, by a write", &ours, "us");
	series_print("cuLaunchKernel and cuStreamSynchronize", &theirs, "us");
	series_print("the same write, empty daemon", &empties, "us");
	series_print("one of 1000 with wait=0", &queue, "us");
	series_print("one of 1000 cuLaunchKernel", &direct_queue, "us");
	ratio_print("launch / direct", &ours, &theirs);
	ratio_print("launch / empty write", &ours, &empties);
	ratio_print("queue / direct queue", &queue, &direct_queue);
	close(launch);
	close(synchronize);
	close(drop);
	return 0;
}

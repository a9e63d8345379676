/* SPDX-License-Identifier: MIT */
/*
 * A worker and its successor: from `reset` of a kernel that never ends, and from a kernel
 * that stores where nothing is, to the end of the next kernel. Compared with cuInit and a
 * context in a fresh process.
 */
#include "bench.h"

#include "base/text.h"
#include "cuda/driver.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char ptx[] = ".version 7.0\n"
			  ".target sm_52\n"
			  ".address_size 64\n"
			  ".visible .entry nothing()\n"
			  "{\n"
			  "\tret;\n"
			  "}\n"
			  ".visible .entry wild()\n"
			  "{\n"
			  "\t.reg .b64 %at;\n"
			  "\t.reg .b32 %one;\n"
			  "\tmov.u64 %at, 16;\n"
			  "\tmov.u32 %one, 1;\n"
			  "\tst.global.u32 [%at], %one;\n"
			  "\tret;\n"
			  "}\n"
			  ".visible .entry endless(.param .u64 flag)\n"
			  "{\n"
			  "\t.reg .b64 %at;\n"
			  "\t.reg .b32 %now;\n"
			  "\t.reg .pred %zero;\n"
			  "\tld.param.u64 %at, [flag];\n"
			  "again:\n"
			  "\tld.volatile.global.u32 %now, [%at];\n"
			  "\tsetp.eq.s32 %zero, %now, 0;\n"
			  "\t@%zero bra again;\n"
			  "\tret;\n"
			  "}\n";

static int launch, reset;

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

static double measure_reset(void)
{
	double begin;

	command(launch, "bench endless grid=1 block=1 wait=0 flag\n");
	begin = now_s();
	command(reset, "1\n");
	command(launch, "bench nothing grid=1 block=1\n");
	return (now_s() - begin) * 1e3;
}

static double measure_fault(void)
{
	static const char line[] = "bench wild grid=1 block=1\n";
	double begin = now_s();

	if (write(launch, line, strlen(line)) >= 0)
		die("a kernel that stores where nothing is has succeeded");
	command(launch, "bench nothing grid=1 block=1\n");
	return (now_s() - begin) * 1e3;
}

static void context_make(void)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	struct cuda_driver *driver;
	CUcontext context;
	CUdevice device;

	if (cuda_driver_open(bench_library(), &driver, &why) < 0)
		die("%s", text_string(&why));
	if (CUDA(driver, NULL, cuDeviceGet, &device, 0) < 0 ||
	    CUDA(driver, NULL, cuDevicePrimaryCtxRetain, &context, device) < 0)
		die("no context on device 0 of %s", bench_library());
}

/* The process's end is not measured. */
static double measure_context(void)
{
	double took, begin;
	int ends[2], status;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		die("pipe: %m");
	pid = fork();
	if (pid < 0)
		die("fork: %m");
	if (!pid) {
		begin = now_s();
		context_make();
		took = (now_s() - begin) * 1e3;
		_exit(write(ends[1], &took, sizeof(took)) != sizeof(took));
	}
	if (waitpid(pid, &status, 0) < 0 || status ||
	    read(ends[0], &took, sizeof(took)) != sizeof(took))
		die("no context in a process of its own");
	close(ends[0]);
	close(ends[1]);
	return took;
}

int main(void)
{
	static struct series resets, faults, contexts;
	size_t rounds = bench_number("BENCH_ROUNDS", 9);
	struct mount broker;
	char path[64];
	int alloc;

	mount_broker(&broker);
	load(&broker);
	alloc = mount_open(&broker, "control/alloc", O_RDWR);
	command(alloc, "flag 4096\n");
	launch = mount_open(&broker, "control/launch", O_RDWR);
	snprintf(path, sizeof(path), "owners/%u/reset", getuid());
	command(launch, "bench nothing grid=1 block=1\n");
	reset = mount_open(&broker, path, O_RDWR);
	for (size_t round = 0; round < rounds; round++) {
		series_add(&resets, measure_reset());
		series_add(&faults, measure_fault());
		series_add(&contexts, measure_context());
	}
	series_print("reset of an endless kernel to the next", &resets, "ms");
	series_print("fault of a kernel to the next", &faults, "ms");
	series_print("cuInit and a context", &contexts, "ms");
	ratio_print("reset / context", &resets, &contexts);
	ratio_print("fault / context", &faults, &contexts);
	close(alloc);
	close(launch);
	close(reset);
	return 0;
}

/* SPDX-License-Identifier: MIT */
/* The settings in GPUMEM_SOFTGPU, and faults on request. */
#include "conform.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"

SUITE(options);
SUITE(inject);

/* A setting that the driver refuses, with the second half of its sentence. */
struct bad {
	const char *setting, *because;
};

static const struct bad *bad;

/* Calls cuInit with bad options and checks the sentence on stderr. */
static void init_with_bad_options(int socket)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	char said[256] = "", sentence[256];
	int fds[2];

	MUST(pipe2(fds, O_CLOEXEC) == 0);
	MUST(dup2(fds[1], STDERR_FILENO) == STDERR_FILENO);
	MUST(cuda_driver_open(getenv("GPUMEM_DRIVER"), &driver, &why) < 0);
	MUST(read(fds[0], said, sizeof(said) - 1) > 0);
	snprintf(sentence, sizeof(sentence), "software GPU: can't use '%s': %s",
		 bad->setting, bad->because);
	MUST(!strncmp(said, sentence, strlen(sentence)));
	wire_send(socket, 1, -1);
}

Test(options, that_make_no_sense_fail_init_with_a_sentence)
{
	static const char no_option[] = "the options are capability=, concurrent=, ";
	static const char fail[] = "fail= takes CALL@WHEN=RESULT, ";
	static const char memory[] = "memory= takes a multiple of 2M, such as 8G\n";
	const struct bad all[] = {
		{ "devices=17", "devices= takes a number from 0 to 16\n" },
		{ "devices=two", "devices= takes " },
		{ "memory=0", memory },
		{ "memory=3", memory },
		{ "memory=1X", memory },
		{ "memory=99999999999999999999", memory },
		{ "capability=9", "capability= takes a version, such as 9.0\n" },
		{ "version=thirteen", "version= takes " },
		{ "machine=../up", "machine= takes " },
		{ "name=", "name= takes " },
		{ "colour=red", no_option },
		{ "colour", no_option },
		{ "memory", no_option },
		{ "fail=cuMemCreate", fail },
		{ "fail=cuMemCreate@1", fail },
		{ "fail=cuMemCreate@0=CUDA_ERROR_OUT_OF_MEMORY", fail },
		{ "fail=cuMemCreate@1=CUDA_ERROR_NO_SUCH", fail },
		{ "fail=cuMemCreate@1=0", fail },
		{ "fail=cuNoSuchCall@1=CUDA_ERROR_OUT_OF_MEMORY", fail },
		{ "delay=cuMemCreate@1=5", "delay= takes " },
		{ "delay=cuMemCreate@x=5ms", "delay= takes " },
		{ "kill=cuMemCreate@1=SIGKILL", "kill= takes " },
	};

	for (bad = all; bad < all + ARRAY_SIZE(all); bad++) {
		struct child child;

		conform_options(bad->setting);
		child_start(&child, init_with_bad_options);
		cr_assert_eq(wire_receive(child.socket, NULL), 1, "%s", bad->setting);
		child_finish(&child);
	}
}

Test(options, set_devices_memory_name_and_capability)
{
	char name[64];
	int value;
	size_t size;

	conform_options("devices=3:memory=64M:name=A small one:capability=7.5");
	conform_open();
	OK(cuDeviceGetCount, &value);
	cr_assert_eq(value, 3);
	OK(cuDeviceTotalMem_v2, &size, 2);
	cr_assert_eq(size, 64 * MIB);
	OK(cuDeviceGetName, name, sizeof(name), 2);
	cr_assert_str_eq(name, "A small one");
	OK(cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
	cr_assert_eq(value, 7);
	OK(cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
	cr_assert_eq(value, 5);
}

static void expect_refused(const char *options, int error, const char *sentence)
{
	_cleanup_text_ struct text why = TEXT_INIT;

	conform_options(options);
	cr_assert_eq(cuda_driver_open(getenv("GPUMEM_DRIVER"), &driver, &why), error);
	cr_assert_null(driver);
	cr_assert(strstr(text_string(&why), sentence), "%s", text_string(&why));
}

Test(options, driver_that_is_too_old_is_refused)
{
	expect_refused("version=12.1", -EOPNOTSUPP,
		       "is a driver for CUDA 12.1: 12.2 is the oldest");
}

Test(options, machine_without_devices_is_refused)
{
	expect_refused("devices=0", -ENODEV, "CUDA_ERROR_NO_DEVICE");
}

Test(options, directory_is_where_memory_is_kept)
{
	char directory[] = "/tmp/softgpu-directory-XXXXXX";
	char text[128];

	MUST(mkdtemp(directory) != NULL);
	snprintf(text, sizeof(text), "directory=%s", directory);
	conform_options(text);
	conform_open();
	memory_import(memory_export(memory_create(2 * MIB)));
	snprintf(text, sizeof(text), "test \"$(ls %s/*/*/0-2097152-*)\" && rm -r %s",
		 directory, directory);
	cr_assert_eq(system(text), 0);
}

/* The results of the first calls of cuCtxSynchronize, as a string of 0 and 1. */
static void synchronize(char *ret, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = driver->fn_cuCtxSynchronize() ? '1' : '0';
	ret[n] = '\0';
}

static void expect_failures(const char *when, const char *expected)
{
	char options[128], seen[16];

	snprintf(options, sizeof(options),
		 "fail=cuCtxSynchronize@%s=CUDA_ERROR_NOT_PERMITTED", when);
	conform_options(options);
	conform_context();
	synchronize(seen, strlen(expected));
	cr_assert_str_eq(seen, expected);
}

Test(inject, fails_one_call)
{
	expect_failures("3", "00100000");
}

Test(inject, fails_all_from_one_on)
{
	expect_failures("3+", "00111111");
}

Test(inject, fails_every_so_many)
{
	expect_failures("2/3", "01001001");
}

Test(inject, fails_every_call)
{
	expect_failures("*", "11111111");
}

Test(inject, gives_the_result_asked_for_and_does_nothing)
{
	CUmemGenericAllocationHandle handle = 0;
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	size_t before, after, total;

	conform_options("fail=cuMemCreate@1=CUDA_ERROR_OUT_OF_MEMORY");
	conform_context();
	OK(cuMemGetInfo_v2, &before, &total);
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate, &handle, 2 * MIB, &prop, 0);
	cr_assert_eq(handle, 0);
	OK(cuMemGetInfo_v2, &after, &total);
	cr_assert_eq(before, after);
	OK(cuMemCreate, &handle, 2 * MIB, &prop, 0);
}

Test(inject, fails_init)
{
	_cleanup_text_ struct text why = TEXT_INIT;

	conform_options("fail=cuInit@1=CUDA_ERROR_NO_DEVICE");
	cr_assert_lt(cuda_driver_open(getenv("GPUMEM_DRIVER"), &driver, &why), 0);
	cr_assert(strstr(text_string(&why), "CUDA_ERROR_NO_DEVICE"));
}

Test(inject, delays_init)
{
	uint64_t begin = clock_ns(CLOCK_MONOTONIC);

	conform_options("delay=cuInit@1=100ms");
	conform_open();
	cr_assert_geq(clock_ns(CLOCK_MONOTONIC) - begin, 100000000);
}

Test(inject, fails_a_call_that_works_without_a_context)
{
	const char *name;

	conform_options("fail=cuGetErrorName@1=CUDA_ERROR_NOT_SUPPORTED");
	conform_open();
	FAILS(CUDA_ERROR_NOT_SUPPORTED, cuGetErrorName, CUDA_SUCCESS, &name);
	OK(cuGetErrorName, CUDA_SUCCESS, &name);
}

Test(inject, delay_keeps_a_stream_busy_and_not_the_caller)
{
	CUstream stream;
	CUdeviceptr at;

	conform_options("delay=cuMemsetD8Async@1=100ms");
	conform_context();
	OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	OK(cuMemAlloc_v2, &at, 4096);
	OK(cuMemsetD8Async, at, 1, 4096, stream);
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery, stream);
	OK(cuStreamSynchronize, stream);
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

Test(inject, delay_holds_up_a_call_that_queues_nothing)
{
	int64_t start;

	conform_options("delay=cuCtxSynchronize@1=100ms");
	conform_context();
	start = now_ms();
	OK(cuCtxSynchronize);
	cr_assert_geq(now_ms() - start, 99);
}

/* In place of the C library's: ends late on request, as on a busy machine. */
static bool sleeps_late;
static int n_sleeps;

__attribute__((visibility("default"))) int nanosleep(const struct timespec *time,
						     struct timespec *ret_left)
{
	struct timespec longer = *time;

	if (sleeps_late) {
		n_sleeps++;
		longer.tv_nsec += 100000000;
	}
	errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &longer, ret_left);
	return errno ? -1 : 0;
}

Test(inject, delay_is_no_longer_on_a_busy_machine)
{
	conform_options("delay=cuCtxSynchronize@1=100ms");
	conform_context();
	sleeps_late = true;
	OK(cuCtxSynchronize);
	cr_expect_eq(n_sleeps, 1, "%d sleeps", n_sleeps);
}

static void allocate(int socket)
{
	CUdeviceptr at;

	conform_context();
	OK(cuMemAlloc_v2, &at, 4096);
	wire_send(socket, 1, -1);
	driver->fn_cuMemAlloc_v2(&at, 4096);
	wire_send(socket, 2, -1);
}

Test(inject, kills_the_process_in_a_call)
{
	struct child child;
	int status;

	conform_options("kill=cuMemAlloc_v2@2");
	child_start(&child, allocate);
	cr_assert_eq(wire_receive(child.socket, NULL), 1);
	cr_assert_eq(waitpid(child.pid, &status, 0), child.pid);
	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void control_write(const char *path, const char *rules)
{
	FILE *file = fopen(path, "w");

	MUST(file != NULL);
	fputs(rules, file);
	MUST(fclose(file) == 0);
}

Test(inject, control_file_breaks_and_mends_a_running_process)
{
	char path[64], options[128];

	snprintf(path, sizeof(path), "/tmp/softgpu-control-%d", (int)getpid());
	snprintf(options, sizeof(options), "control=%s", path);
	conform_options(options);
	conform_context();
	OK(cuCtxSynchronize);
	control_write(path, "fail=cuCtxSynchronize@1+=CUDA_ERROR_NOT_PERMITTED\n");
	FAILS(CUDA_ERROR_NOT_PERMITTED, cuCtxSynchronize);
	FAILS(CUDA_ERROR_NOT_PERMITTED, cuCtxSynchronize);
	control_write(path, "fail=cuCtxSynchronize@2=CUDA_ERROR_NOT_FOUND\n");
	OK(cuCtxSynchronize);
	FAILS(CUDA_ERROR_NOT_FOUND, cuCtxSynchronize);
	unlink(path);
	OK(cuCtxSynchronize);
}

Test(inject, sticky_result_poisons_the_process_for_good)
{
	CUcontext context;
	CUdeviceptr at;
	int n;

	conform_options("fail=cuCtxSynchronize@1=CUDA_ERROR_ILLEGAL_ADDRESS");
	context = conform_context();
	OK(cuMemAlloc_v2, &at, 4096);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemFree_v2, at);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuDeviceGetCount, &n);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuDevicePrimaryCtxReset_v2, 0);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuDevicePrimaryCtxRetain, &context, 0);
}

static void poison_and_say(int socket)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;

	conform_options("devices=2:memory=1G:"
			"fail=cuCtxSynchronize@1=CUDA_ERROR_LAUNCH_FAILED");
	conform_context();
	at = address_reserve(4 * MIB, ADDRESS);
	handle = memory_create(4 * MIB);
	memory_map(at, 4 * MIB, handle, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	words_write(at, 5, MIB);
	wire_send(socket, at, memory_export(handle));
	FAILS(CUDA_ERROR_LAUNCH_FAILED, cuCtxSynchronize);
	wire_send(socket, 1, -1);
}

Test(inject, poisoned_process_leaves_its_memory_to_others)
{
	struct child child;
	CUdeviceptr at;
	int fd;

	child_start(&child, poison_and_say);
	at = wire_receive(child.socket, &fd);
	cr_assert_eq(wire_receive(child.socket, NULL), 1);
	child_finish(&child);
	conform_context();
	cr_assert_eq(address_reserve(4 * MIB, at), at);
	memory_map(at, 4 * MIB, memory_import(fd), CU_MEM_ACCESS_FLAGS_PROT_READ);
	cr_assert(words_match(at, 5, MIB));
}

/* Work queued behind the fault does not run, and waits for that work end. */
Test(inject, work_queued_before_a_fault_ends)
{
	struct gate gate;
	CUstream stream;
	CUdeviceptr at;

	conform_options("fail=cuCtxSynchronize@1=CUDA_ERROR_ILLEGAL_ADDRESS");
	conform_context();
	gate_init(&gate);
	OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	OK(cuMemAlloc_v2, &at, 4096);
	OK(cuLaunchHostFunc, stream, gate_wait, &gate);
	OK(cuMemsetD8Async, at, 1, 4096, stream);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize, stream);
	gate_open(&gate);
}

/* SPDX-License-Identifier: MIT */
/*
 * Kernels that fault: the result, the end of the process' context, and the memory that
 * survives. Each kernel runs in a separate process.
 */
#include "conform.h"
#include "ptx.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

SUITE(fault);

#define WILD ((CUdeviceptr)0x600000000000)

static CUfunction kernel(const char *name)
{
	CUfunction function;
	CUmodule module;

	OK(cuModuleLoadDataEx, &module, PTX_ALL, 0, NULL, NULL);
	OK(cuModuleGetFunction, &function, module, name);
	return function;
}

static void launch(const char *name, void **params)
{
	OK(cuLaunchKernel, kernel(name), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
}

static void poke(CUdeviceptr at)
{
	uint32_t value = 0x5a5a5a5a;

	launch("poke", (void *[]){ &at, &value });
}

static void in_child(void (*body)(int socket))
{
	struct child child;

	child_start(&child, body);
	child_finish(&child);
}

static void wild(int socket)
{
	CUdeviceptr at;
	CUcontext context;
	int n;

	(void)socket;
	context = conform_context();
	poke(WILD);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc_v2, &at, 4096);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize, NULL);
	/* Whatever is tried next, no context is to be had here any more. */
	driver->fn_cuDevicePrimaryCtxReset_v2(0);
	MUST(driver->fn_cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
	     driver->fn_cuCtxSetCurrent(context) != CUDA_SUCCESS ||
	     driver->fn_cuMemAlloc_v2(&at, 4096) != CUDA_SUCCESS);
	OK(cuDriverGetVersion, &n);
}

Test(fault, wild_store_loses_the_process_for_good)
{
	in_child(wild);
}

static void wild_load(int socket)
{
	CUdeviceptr from = WILD, to;

	(void)socket;
	conform_context();
	OK(cuMemAlloc_v2, &to, 4);
	launch("peek", (void *[]){ &from, &to });
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize);
}

Test(fault, wild_load_is_one_too)
{
	in_child(wild_load);
}

static void null_store(int socket)
{
	(void)socket;
	conform_context();
	poke(0);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize);
}

Test(fault, store_to_null_is_one_too)
{
	in_child(null_store);
}

/* A read-only page of 42s. */
static uint32_t *page_read_only(void)
{
	int fd = memfd_create("conform", MFD_CLOEXEC);
	const uint32_t word = 42;
	void *page;

	MUST(ftruncate(fd, 4096) == 0);
	MUST(pwrite(fd, &word, sizeof(word), 0) == sizeof(word));
	page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	MUST(page != MAP_FAILED);
	close(fd);
	return page;
}

static void host_read_only(int socket)
{
	uint32_t *page = page_read_only(), word;
	CUdeviceptr from, to;

	(void)socket;
	conform_context();
	OK(cuMemHostRegister_v2, page, 4096,
	   CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
		   CU_MEMHOSTREGISTER_READ_ONLY);
	OK(cuMemHostGetDevicePointer_v2, &from, page, 0);
	OK(cuMemAlloc_v2, &to, 4);
	launch("peek", (void *[]){ &from, &to });
	OK(cuMemcpyDtoH_v2, &word, to, sizeof(word));
	MUST(word == 42);
	poke(from);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize);
	MUST(page[0] == 42);
}

Test(fault, store_to_host_memory_registered_read_only_is_one_too)
{
	in_child(host_read_only);
}

/* Two pages with nothing on either side; their first and last words may be stored. */
static CUdeviceptr pages_alone(void)
{
	CUdeviceptr at = address_reserve(8 * MIB, 0) + 2 * MIB;

	conform_context();
	memory_map(at, 4 * MIB, memory_create(4 * MIB),
		   CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	poke(at);
	poke(at + 4 * MIB - 4);
	OK(cuCtxSynchronize);
	return at;
}

static void behind_a_mapping(int socket)
{
	(void)socket;
	conform_open();
	poke(pages_alone() + 4 * MIB);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize);
}

Test(fault, store_right_behind_a_mapping_is_one_too)
{
	in_child(behind_a_mapping);
}

static void before_a_mapping(int socket)
{
	(void)socket;
	conform_open();
	poke(pages_alone() - 4);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize);
}

Test(fault, store_right_before_a_mapping_is_one_too)
{
	in_child(before_a_mapping);
}

static void load_behind_a_mapping(int socket)
{
	CUdeviceptr from, to;

	(void)socket;
	conform_open();
	from = pages_alone() + 4 * MIB;
	to = from - 4;
	launch("peek", (void *[]){ &from, &to });
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize);
}

Test(fault, load_right_behind_a_mapping_is_one_too)
{
	in_child(load_behind_a_mapping);
}

static void behind_host_memory(int socket)
{
	uint8_t *pages =
		mmap(NULL, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUdeviceptr at;

	(void)socket;
	MUST(pages != MAP_FAILED);
	MUST(mprotect(pages + 4096, 4096, PROT_READ | PROT_WRITE) == 0);
	conform_context();
	OK(cuMemHostRegister_v2, pages + 4096, 4096,
	   CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
	OK(cuMemHostGetDevicePointer_v2, &at, pages + 4096, 0);
	poke(at + 4092);
	OK(cuCtxSynchronize);
	poke(at + 4096);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize);
}

Test(fault, store_right_behind_registered_host_memory_is_one_too)
{
	in_child(behind_host_memory);
}

static void misaligned(int socket)
{
	CUdeviceptr at;

	(void)socket;
	conform_context();
	OK(cuMemAlloc_v2, &at, 4096);
	poke(at + 2);
	FAILS(CUDA_ERROR_MISALIGNED_ADDRESS, cuCtxSynchronize);
	FAILS(CUDA_ERROR_MISALIGNED_ADDRESS, cuMemAlloc_v2, &at, 4096);
}

Test(fault, misaligned_store_is_told_apart)
{
	in_child(misaligned);
}

static void trapped(int socket)
{
	CUdeviceptr at;

	(void)socket;
	conform_context();
	launch("stop", NULL);
	FAILS(CUDA_ERROR_LAUNCH_FAILED, cuCtxSynchronize);
	FAILS(CUDA_ERROR_LAUNCH_FAILED, cuMemAlloc_v2, &at, 4096);
}

Test(fault, trap_fails_the_launch)
{
	in_child(trapped);
}

static void shows_later(int socket)
{
	CUstream stream, other;
	CUresult result;
	CUdeviceptr at = WILD;
	uint32_t value = 1;

	(void)socket;
	conform_context();
	OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	OK(cuStreamCreate, &other, CU_STREAM_NON_BLOCKING);
	OK(cuLaunchKernel, kernel("poke"), 1, 1, 1, 1, 1, 1, 0, stream,
	   ((void *[]){ &at, &value }), NULL);
	do
		result = driver->fn_cuStreamQuery(stream);
	while (result == CUDA_ERROR_NOT_READY);
	MUST(result == CUDA_ERROR_ILLEGAL_ADDRESS);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize, other);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuLaunchKernel, NULL, 1, 1, 1, 1, 1, 1, 0, NULL,
	      NULL, NULL);
}

Test(fault, of_one_stream_shows_on_every_one)
{
	in_child(shows_later);
}

/* Modules are loaded before: a load may wait for running kernels. */
static void ends_others(int socket)
{
	CUstream stream, other;
	uint32_t *word, last = 0;
	CUfunction count, store;
	CUdeviceptr at, nowhere = WILD;
	CUresult result;

	(void)socket;
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	conform_context();
	count = kernel("count");
	store = kernel("poke");
	OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	OK(cuStreamCreate, &other, CU_STREAM_NON_BLOCKING);
	OK(cuMemHostAlloc, (void **)&word, 4, CU_MEMHOSTALLOC_DEVICEMAP);
	OK(cuMemHostGetDevicePointer_v2, &at, word, 0);
	__atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
	OK(cuLaunchKernel, count, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){ &at }, NULL);
	while (!__atomic_load_n(word, __ATOMIC_SEQ_CST))
		;
	OK(cuLaunchKernel, store, 1, 1, 1, 1, 1, 1, 0, other,
	   ((void *[]){ &nowhere, &last }), NULL);
	do
		result = driver->fn_cuStreamQuery(other);
	while (result == CUDA_ERROR_NOT_READY);
	last = __atomic_load_n(word, __ATOMIC_SEQ_CST);
	MUST(result == CUDA_ERROR_ILLEGAL_ADDRESS);
	usleep(100000);
	MUST(__atomic_load_n(word, __ATOMIC_SEQ_CST) == last);
}

/* Others may write the memory as soon as the fault is known. */
Test(fault, is_told_when_all_kernels_have_ended)
{
	in_child(ends_others);
}

static void read_only(int socket)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;

	(void)socket;
	conform_context();
	handle = memory_create(2 * MIB);
	at = address_reserve(2 * MIB, 0);
	memory_map(at, 2 * MIB, handle, CU_MEM_ACCESS_FLAGS_PROT_READ);
	poke(at);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize);
}

Test(fault, store_to_what_is_mapped_to_be_read_is_one)
{
	in_child(read_only);
}

/* Mapped for device 1, used by device 0. */
static void of_another_device(int socket)
{
	const CUmemAccessDesc other = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1 },
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;
	int n;

	conform_context();
	OK(cuDeviceGetCount, &n);
	wire_send(socket, (uint64_t)n, -1);
	if (n < 2)
		return;
	handle = memory_create(2 * MIB);
	at = address_reserve(2 * MIB, 0);
	OK(cuMemMap, at, 2 * MIB, 0, handle, 0);
	OK(cuMemSetAccess, at, 2 * MIB, &other, 1);
	poke(at);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize);
}

Test(fault, store_to_what_is_mapped_for_another_device_is_one)
{
	struct child child;
	uint64_t n;

	child_start(&child, of_another_device);
	n = wire_receive(child.socket, NULL);
	child_finish(&child);
	if (n < 2)
		cr_skip_test("the machine has fewer than 2 devices");
}

static void unmapped(int socket)
{
	CUdeviceptr at;

	(void)socket;
	conform_context();
	at = address_reserve(2 * MIB, 0);
	poke(at);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize);
}

Test(fault, store_to_a_reservation_with_nothing_there_is_one)
{
	in_child(unmapped);
}

/* Allocates memory, exports and writes it, and then loses its context by a fault. */
static void exporter(int socket)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;

	conform_context();
	handle = memory_create(2 * MIB);
	at = address_reserve(2 * MIB, ADDRESS);
	memory_map(at, 2 * MIB, handle, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	words_write(at, 1000, 1000);
	OK(cuCtxSynchronize);
	wire_send(socket, at, memory_export(handle));
	poke(WILD);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize);
	wire_send(socket, 0, -1);
	wire_receive(socket, NULL);
}

Test(fault, exported_memory_outlives_it)
{
	CUmemGenericAllocationHandle handle;
	struct child child;
	CUdeviceptr at, there;
	int fd;

	child_start(&child, exporter);
	there = wire_receive(child.socket, &fd);
	wire_receive(child.socket, NULL);
	conform_context();
	handle = memory_import(fd);
	at = address_reserve(2 * MIB, there);
	memory_map(at, 2 * MIB, handle, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	cr_assert(words_match(at, 1000, 1000));
	wire_send(child.socket, 0, -1);
	child_finish(&child);
	cr_assert(words_match(at, 1000, 1000));
}

static void others_go_on(int socket)
{
	(void)socket;
	conform_context();
	poke(WILD);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize);
}

Test(fault, of_another_process_is_not_noticed)
{
	CUdeviceptr at;
	struct child child;

	child_start(&child, others_go_on);
	conform_context();
	OK(cuMemAlloc_v2, &at, 4096);
	words_write(at, 5, 1024);
	child_finish(&child);
	cr_assert(words_match(at, 5, 1024));
	poke(at);
	OK(cuCtxSynchronize);
}

/* Starts an endless kernel. */
static void endless_start(void)
{
	CUstream stream;
	CUdeviceptr flag;

	conform_context();
	OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	OK(cuMemAlloc_v2, &flag, 4);
	OK(cuMemsetD32_v2, flag, 0, 1);
	OK(cuCtxSynchronize);
	OK(cuLaunchKernel, kernel("wait"), 1, 1, 1, 1, 1, 1, 0, stream,
	   ((void *[]){ &flag }), NULL);
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery, stream);
}

static void endless(int socket)
{
	CUdeviceptr at;
	CUstream stream;
	size_t there, all;

	endless_start();
	OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	OK(cuMemGetInfo_v2, &there, &all);
	OK(cuMemAlloc_v2, &at, 1 << 20);
	OK(cuMemsetD32Async, at, 9, 1 << 18, stream);
	OK(cuStreamSynchronize, stream);
	wire_send(socket, 0, -1);
	wire_receive(socket, NULL);
}

Test(fault, endless_kernel_leaves_other_calls_alone_and_dies_with_its_process)
{
	struct child child;

	child_start(&child, endless);
	wire_receive(child.socket, NULL);
	child_kill(&child);
}

/* exit() runs all atexit functions, the driver's too. */
static void endless_exit(int socket)
{
	(void)socket;
	endless_start();
	exit(0);
}

Test(fault, process_ends_though_its_kernel_does_not)
{
	in_child(endless_exit);
}

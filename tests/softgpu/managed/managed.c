/* SPDX-License-Identifier: MIT */
/*
 * The places of managed pages: prefetches, kernels, fills and the program move pages,
 * copies do not, advice counts, and a full device evicts.
 */
#include "conform.h"
#include "pages.h"
#include "ptx.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

SUITE(residency);
SUITE(evict);
SUITE(attach);

static CUdeviceptr managed_new(size_t size)
{
	CUdeviceptr at;

	OK(cuMemAllocManaged, &at, size, CU_MEM_ATTACH_GLOBAL);
	return at;
}

/* Two devices of 64 MiB, a host of two nodes, and some managed memory. */
static CUdeviceptr begin(size_t size)
{
	conform_options("devices=2:memory=64M:nodes=2");
	conform_context();
	return managed_new(size);
}

static bool is_on_host(CUdeviceptr at)
{
	return where(at) == NODE(0) || where(at) == NODE(1);
}

static void prefetch(CUdeviceptr at, size_t size, CUdevice device)
{
	OK(cuMemPrefetchAsync, at, size, device, NULL);
	OK(cuCtxSynchronize);
}

static void prefetch_to_node(CUdeviceptr at, size_t size, int node)
{
	const CUmemLocation location = { .type = CU_MEM_LOCATION_TYPE_HOST_NUMA,
					 .id = node };

	OK(cuMemPrefetchAsync_v2, at, size, location, 0, NULL);
	OK(cuCtxSynchronize);
}

static CUcontext use_device(int device)
{
	CUcontext context;

	OK(cuDevicePrimaryCtxRetain, &context, device);
	OK(cuCtxSetCurrent, context);
	return context;
}

static CUresult kernel_read(CUdeviceptr at)
{
	CUdeviceptr result;

	OK(cuMemAlloc_v2, &result, 4);
	return kernel_run("peek", NULL, (void *[]){ &at, &result });
}

/* Work of the device that allocates nothing. */
static void fill(CUdeviceptr at)
{
	OK(cuMemsetD32_v2, at, 7, 1);
	OK(cuCtxSynchronize);
}

Test(residency, memory_is_nowhere_until_it_is_touched)
{
	const CUdeviceptr at = begin(3 * PAGE);
	const size_t before = memory_free();

	cr_assert_eq(where(at), 0);
	host_access(at, 1, true);
	cr_assert(is_on_host(at));
	cr_assert_eq(where(at + PAGE), 0);
	fill(at + PAGE);
	cr_assert_eq(where(at + PAGE), DEVICE(0));
	cr_assert_eq(where(at + 2 * PAGE), 0);
	cr_assert_eq(before - memory_free(), PAGE);
}

Test(residency, prefetch_moves_the_pages_and_their_room)
{
	const CUdeviceptr at = begin(8 * PAGE);
	const size_t before = memory_free();

	prefetch(at, 8 * PAGE, 0);
	for (size_t i = 0; i < 8; i++)
		cr_assert_eq(where(at + i * PAGE), DEVICE(0));
	cr_assert_eq(before - memory_free(), 8 * PAGE);
	prefetch(at, 8 * PAGE, CPU);
	cr_assert(is_on_host(at + 7 * PAGE));
	cr_assert_eq(memory_free(), before);
	prefetch(at, 8 * PAGE, 0);
	OK(cuMemFree_v2, at);
	cr_assert_eq(memory_free(), before);
}

Test(residency, prefetch_to_the_second_device_is_seen_there)
{
	const CUdeviceptr at = begin(4 * PAGE);

	prefetch(at, 4 * PAGE, 0);
	prefetch(at + PAGE, 2 * PAGE, 1);
	cr_assert_eq(where(at), DEVICE(0));
	cr_assert_eq(where(at + PAGE), DEVICE(1));
	cr_assert_eq(where(at + 2 * PAGE), DEVICE(1));
	cr_assert_eq(where(at + 3 * PAGE), DEVICE(0));
}

Test(residency, prefetch_to_a_node_is_seen_there)
{
	const CUdeviceptr at = begin(2 * PAGE);

	prefetch_to_node(at, 2 * PAGE, 1);
	cr_assert_eq(where(at), NODE(1));
	prefetch(at, PAGE, CPU);
	cr_assert_eq(where(at), NODE(1));
	prefetch_to_node(at, 2 * PAGE, 0);
	cr_assert_eq(where(at), NODE(0));
}

Test(residency, prefetch_waits_for_its_stream)
{
	const CUdeviceptr at = begin(PAGE);
	struct gate gate;
	CUstream stream;

	gate_init(&gate);
	OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	OK(cuLaunchHostFunc, stream, gate_wait, &gate);
	OK(cuMemPrefetchAsync, at, PAGE, 0, stream);
	cr_assert_eq(where(at), 0);
	gate_open(&gate);
	OK(cuStreamSynchronize, stream);
	cr_assert_eq(where(at), DEVICE(0));
}

Test(residency, kernel_and_program_move_what_they_touch)
{
	const CUdeviceptr at = begin(4 * PAGE);

	prefetch(at, 4 * PAGE, CPU);
	cr_assert_eq(kernel_read(at + PAGE), CUDA_SUCCESS);
	cr_assert(is_on_host(at));
	cr_assert_eq(where(at + PAGE), DEVICE(0));
	host_access(at + PAGE + 100, 4, false);
	cr_assert(is_on_host(at + PAGE));
	use_device(1);
	cr_assert_eq(kernel_write(at + PAGE, NULL), CUDA_SUCCESS);
	cr_assert_eq(where(at + PAGE), DEVICE(1));
}

/* As measured on an H200. */
Test(residency, copy_pulls_pages_of_the_host_and_no_others)
{
	const CUdeviceptr at = begin(4 * PAGE);
	_cleanup_free_ unsigned char *bytes = calloc(1, 4 * PAGE);
	CUdeviceptr device;

	OK(cuMemAlloc_v2, &device, 4 * PAGE);
	prefetch(at, 2 * PAGE, 1);
	prefetch(at + 2 * PAGE, 2 * PAGE, CPU);
	OK(cuMemcpyDtoH_v2, bytes, at, 3 * PAGE);
	OK(cuMemcpyHtoD_v2, at, bytes, PAGE);
	OK(cuMemcpyDtoD_v2, device, at, 2 * PAGE);
	OK(cuMemcpyDtoD_v2, at + PAGE, device, PAGE);
	OK(cuCtxSynchronize);
	cr_assert_eq(where(at), DEVICE(1));
	cr_assert_eq(where(at + PAGE), DEVICE(1));
	cr_assert_eq(where(at + 2 * PAGE), DEVICE(0));
	cr_assert(is_on_host(at + 3 * PAGE));
}

Test(residency, fill_is_the_devices_work)
{
	const CUdeviceptr at = begin(3 * PAGE);

	prefetch(at, 3 * PAGE, CPU);
	OK(cuMemsetD8_v2, at, 1, PAGE + 1);
	OK(cuCtxSynchronize);
	cr_assert_eq(where(at), DEVICE(0));
	cr_assert_eq(where(at + PAGE), DEVICE(0));
	cr_assert(is_on_host(at + 2 * PAGE));
}

Test(residency, read_mostly_pages_have_copies_until_one_is_written)
{
	const CUdeviceptr at = begin(PAGE);

	prefetch_to_node(at, PAGE, 0);
	advise(at, PAGE, CU_MEM_ADVISE_SET_READ_MOSTLY, 0);
	cr_assert_eq(kernel_read(at), CUDA_SUCCESS);
	cr_assert_eq(where(at), NODE(0) | DEVICE(0));
	prefetch(at, PAGE, 1);
	cr_assert_eq(where(at), NODE(0) | DEVICE(0) | DEVICE(1));
	cr_assert_eq(kernel_write(at, NULL), CUDA_SUCCESS);
	cr_assert_eq(where(at), DEVICE(0));
	host_access(at, 1, false);
	cr_assert_eq(where(at) & DEVICE(0), DEVICE(0));
	cr_assert_neq(where(at), DEVICE(0));
	host_access(at, 1, true);
	cr_assert(is_on_host(at));
}

Test(residency, unset_read_mostly_leaves_one_copy)
{
	const CUdeviceptr at = begin(PAGE);

	prefetch(at, PAGE, CPU);
	advise(at, PAGE, CU_MEM_ADVISE_SET_READ_MOSTLY, 0);
	advise(at, PAGE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 1);
	prefetch(at, PAGE, 0);
	prefetch(at, PAGE, 1);
	advise(at, PAGE, CU_MEM_ADVISE_UNSET_READ_MOSTLY, 0);
	cr_assert_eq(where(at), DEVICE(1));
}

Test(residency, preferred_location_is_not_left_for_an_access)
{
	const CUdeviceptr at = begin(2 * PAGE);

	advise(at, 2 * PAGE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CPU);
	cr_assert_eq(kernel_write(at, NULL), CUDA_SUCCESS);
	cr_assert(is_on_host(at));
	prefetch(at, PAGE, 0);
	cr_assert_eq(where(at), DEVICE(0));
	advise(at, 2 * PAGE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0);
	use_device(1);
	cr_assert_eq(kernel_write(at, NULL), CUDA_SUCCESS);
	cr_assert_eq(where(at), DEVICE(0));
	host_access(at, 1, true);
	cr_assert(is_on_host(at));
}

Test(residency, pages_stay_for_who_accesses_from_afar)
{
	const CUdeviceptr at = begin(PAGE);

	prefetch(at, PAGE, 0);
	advise(at, PAGE, CU_MEM_ADVISE_SET_ACCESSED_BY, 1);
	use_device(1);
	cr_assert_eq(kernel_write(at, NULL), CUDA_SUCCESS);
	cr_assert_eq(where(at), DEVICE(0));
	advise(at, PAGE, CU_MEM_ADVISE_UNSET_ACCESSED_BY, 1);
	cr_assert_eq(kernel_write(at, NULL), CUDA_SUCCESS);
	cr_assert_eq(where(at), DEVICE(1));
}

Test(residency, is_seen_from_outside)
{
	const CUdeviceptr at = begin(2 * PAGE);
	uint32_t words[4];
	char path[128];
	FILE *file;

	prefetch(at + PAGE, PAGE, 1);
	snprintf(path, sizeof(path),
		 "/dev/shm/gpumem-softgpu.conform-%d/%u-0/managed-%d-%llx", (int)getpid(),
		 (unsigned int)geteuid(), (int)getpid(), (unsigned long long)at);
	file = fopen(path, "r");
	MUST(file != NULL);
	cr_assert_eq(fread(words, 1, sizeof(words), file), sizeof(words));
	cr_assert_eq(words[0], 0);
	cr_assert_eq(words[2], DEVICE(1));
	fclose(file);
	OK(cuMemFree_v2, at);
	cr_assert_eq(access(path, F_OK), -1);
}

static void move_somehow(CUdeviceptr at, size_t size, unsigned int *seed)
{
	static const CUmem_advise advices[] = { CU_MEM_ADVISE_SET_READ_MOSTLY,
						CU_MEM_ADVISE_UNSET_READ_MOSTLY,
						CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
						CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION,
						CU_MEM_ADVISE_SET_ACCESSED_BY,
						CU_MEM_ADVISE_UNSET_ACCESSED_BY };
	const size_t from = (size_t)rand_r(seed) % size;
	const size_t length = (size_t)rand_r(seed) % (size - from) + 1;
	const CUdevice place = rand_r(seed) % 3 - 1;

	switch (rand_r(seed) % 4) {
	case 0:
		OK(cuMemPrefetchAsync, at + from, length, place, NULL);
		break;
	case 1:
		advise(at + from, length, advices[rand_r(seed) % 6], place);
		break;
	case 2:
		OK(cuMemsetD8_v2, at + from, 1, MIN(length, (size_t)100));
		break;
	default:
		host_access(at + from, length, rand_r(seed) % 2);
	}
}

Test(evict, more_than_the_device_has_goes_there_in_turns)
{
	const CUdeviceptr at = begin(48 * PAGE);

	prefetch(at, 48 * PAGE, 0);
	cr_assert(is_on_host(at));
	cr_assert(is_on_host(at + 15 * PAGE));
	cr_assert_eq(where(at + 16 * PAGE), DEVICE(0));
	cr_assert_eq(where(at + 47 * PAGE), DEVICE(0));
	cr_assert_eq(memory_free(), 0);
	cr_assert_eq(kernel_write(at, NULL), CUDA_SUCCESS);
	cr_assert_eq(where(at), DEVICE(0));
}

Test(evict, device_memory_takes_the_room_of_managed)
{
	const CUdeviceptr at = begin(32 * PAGE);
	CUdeviceptr device;

	prefetch(at, 32 * PAGE, 0);
	OK(cuMemAlloc_v2, &device, 16 * PAGE);
	cr_assert(is_on_host(at));
	cr_assert_eq(where(at + 31 * PAGE), DEVICE(0));
	memory_create(16 * PAGE);
	cr_assert(is_on_host(at + 31 * PAGE));
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2, &device, PAGE);
	prefetch(at, 32 * PAGE, 0);
	cr_assert(is_on_host(at));
	fill(at);
	cr_assert(is_on_host(at));
}

/* Without a stream's thread: the thread sanitizer starts none in a child of fork(). */
static void fill_and_stay(int socket)
{
	CUdeviceptr at;

	conform_options("devices=2:memory=64M");
	conform_context();
	at = managed_new(32 * PAGE);
	OK(cuMemsetD8_v2, at, 1, 32 * PAGE);
	wire_send(socket, 0, -1);
	wire_receive(socket, NULL);
	MUST(is_on_host(at));
	MUST(where(at + 31 * PAGE) == DEVICE(0));
}

Test(evict, room_is_found_in_other_processes)
{
	struct child child;
	CUdeviceptr device;

	conform_options("devices=2:memory=64M");
	child_start(&child, fill_and_stay);
	wire_receive(child.socket, NULL);
	conform_context();
	cr_assert_eq(memory_free(), 0);
	OK(cuMemAlloc_v2, &device, 16 * PAGE);
	wire_send(child.socket, 0, -1);
	child_finish(&child);
	cr_assert_eq(memory_free(), 16 * PAGE);
}

Test(evict, memory_of_a_killed_process_comes_back)
{
	struct child child;

	conform_options("devices=2:memory=64M:managed=128M");
	child_start(&child, fill_and_stay);
	wire_receive(child.socket, NULL);
	conform_context();
	child_kill(&child);
	cr_assert_eq(memory_free(), 32 * PAGE);
	managed_new(64 * PAGE);
}

/* A user's file may be of any size, and it costs the user nothing to make it. */
Test(evict, a_book_that_is_larger_than_all_managed_memory_is_none)
{
	CUdeviceptr more;
	char path[128];
	int fd;

	conform_options("devices=1:memory=64M:managed=256M");
	conform_context();
	managed_new(100 * PAGE);
	snprintf(path, sizeof(path),
		 "/dev/shm/gpumem-softgpu.conform-%d/%u-0/managed-%d-1000", (int)getpid(),
		 (unsigned int)geteuid(), (int)getpid());
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	cr_assert_geq(fd, 0);
	cr_assert_eq(ftruncate(fd, 1 << 30), 0);
	/* Looks at all books. */
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocManaged, &more, 29 * PAGE,
	      CU_MEM_ATTACH_GLOBAL);
	managed_new(28 * PAGE);
	close(fd);
}

/* The book of this process's managed memory, at that address. */
static int book_open(CUdeviceptr at)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path),
		 "/dev/shm/gpumem-softgpu.conform-%d/%u-0/managed-%d-%llx", (int)getpid(),
		 (unsigned int)geteuid(), (int)getpid(), (unsigned long long)at);
	fd = open(path, O_RDWR | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	return fd;
}

/* The clock goes round, and a user's file may have any numbers. Here a third of the pages
 * moved now, a third will move in sixteen days, and a third moved sixteen days ago: by
 * their differences, each third is older than the next. */
Test(evict, pages_have_one_order_whatever_their_times_are)
{
	const CUdeviceptr at = begin(32 * PAGE);
	const int fd = book_open(at);
	CUdeviceptr device;
	struct timespec now;
	uint32_t moved;

	prefetch(at, 32 * PAGE, 0);
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	for (uint32_t i = 0; i < 32; i++) {
		const uint32_t turn = i % 3 * 0x55555555;

		moved = (uint32_t)(now.tv_sec * 1000) + turn - i;
		cr_assert_eq(pwrite(fd, &moved, sizeof(moved), 8 * (off_t)i + 4),
			     (ssize_t)sizeof(moved));
	}
	close(fd);
	OK(cuMemAlloc_v2, &device, 10 * PAGE);
	for (uint32_t i = 0; i < 32; i++)
		cr_assert_eq(is_on_host(at + i * PAGE), i % 3 == 2, "%u", i);
}

/* The driver of CUDA 13.0 crashes on some of these: nobody may count on the answer. */
Test(attach, with_other_flags_is_refused)
{
	CUstream stream;
	CUdeviceptr at;

	conform_context();
	OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	at = managed_new(PAGE);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync, stream, at, 0, 0);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync, stream, at, 0,
	      CU_MEM_ATTACH_GLOBAL | CU_MEM_ATTACH_HOST | CU_MEM_ATTACH_SINGLE);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync, stream, at, 0, 8);
}

Test(evict, managed_memory_has_a_limit)
{
	CUdeviceptr at, more;

	conform_options("devices=1:memory=64M:managed=256M");
	conform_context();
	at = managed_new(100 * PAGE);
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocManaged, &more, 29 * PAGE,
	      CU_MEM_ATTACH_GLOBAL);
	managed_new(28 * PAGE);
	OK(cuMemFree_v2, at);
	managed_new(100 * PAGE);
}

Test(evict, books_are_right_after_ten_thousand_steps)
{
	CUdeviceptr blocks[16] = { 0 };
	size_t sizes[16], before;
	unsigned int seed = 1;

	conform_options("devices=2:memory=64M:nodes=2");
	conform_context();
	before = memory_free();
	for (int step = 0; step < 10000; step++) {
		const int i = rand_r(&seed) % 16;

		if (!blocks[i]) {
			sizes[i] = (size_t)(rand_r(&seed) % 8 + 1) * PAGE;
			blocks[i] = managed_new(sizes[i]);
		} else if (rand_r(&seed) % 4 == 0) {
			OK(cuMemFree_v2, blocks[i]);
			blocks[i] = 0;
		} else {
			move_somehow(blocks[i], sizes[i], &seed);
		}
	}
	for (int i = 0; i < 16; i++)
		OK(cuMemFree_v2, blocks[i]);
	cr_assert_eq(memory_free(), before);
	blocks[0] = managed_new(32 * PAGE);
	prefetch(blocks[0], 32 * PAGE, 1);
	cr_assert_eq(where(blocks[0]), DEVICE(1));
	cr_assert_eq(where(blocks[0] + 31 * PAGE), DEVICE(1));
}

Test(evict, a_duplicate_is_only_dropped)
{
	const CUdeviceptr at = begin(PAGE);

	prefetch(at, PAGE, 1);
	advise(at, PAGE, CU_MEM_ADVISE_SET_READ_MOSTLY, 0);
	prefetch(at, PAGE, 0);
	cr_assert_eq(where(at), DEVICE(0) | DEVICE(1));
	memory_create(32 * PAGE);
	cr_assert_eq(where(at), DEVICE(1));
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

Test(residency, calls_fail_and_wait_on_request)
{
	CUdeviceptr at;
	int64_t begun;

	conform_options("fail=cuMemAllocManaged@1=CUDA_ERROR_OUT_OF_MEMORY:"
			"fail=cuMemPrefetchAsync_v2@*=CUDA_ERROR_NOT_SUPPORTED:"
			"fail=cuMemRangeGetAttributes@1=CUDA_ERROR_ILLEGAL_ADDRESS:"
			"delay=cuMemPrefetchAsync@*=20ms");
	conform_context();
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocManaged, &at, PAGE,
	      CU_MEM_ATTACH_GLOBAL);
	at = managed_new(PAGE);
	FAILS(CUDA_ERROR_NOT_SUPPORTED, cuMemPrefetchAsync_v2, at, PAGE,
	      (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST }, 0, NULL);
	begun = now_ns();
	prefetch(at, PAGE, 0);
	cr_assert_geq(now_ns() - begun, 20000000);
	cr_assert_eq(where(at), DEVICE(0));
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemRangeGetAttributes, NULL, NULL, NULL, 0,
	      at, PAGE);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemFree_v2, at);
}

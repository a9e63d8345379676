/* SPDX-License-Identifier: MIT */
/* The memory shared by processes: its limit is kept, and memory of ended processes
 * returns.
 */
#include "conform.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

SUITE(ledger);

#define WRITE CU_MEM_ACCESS_FLAGS_PROT_READWRITE
#define LIMIT "devices=2:memory=64M"

static const CUmemAllocationProp prop = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
};

static void needs_root(void)
{
	if (geteuid() != 0)
		cr_skip_test("only root can become another user");
}

static void needs_streams_in_children(void)
{
#ifdef __SANITIZE_THREAD__
	cr_skip_test("the thread sanitizer can't follow the streams of a forked process");
#endif
}

static void take_60_mib(int socket)
{
	conform_open();
	memory_create(60 * MIB);
	wire_send(socket, 1, -1);
	wire_receive(socket, NULL);
}

Test(ledger, limit_holds_across_processes)
{
	CUmemGenericAllocationHandle handle;
	struct child child;
	CUdeviceptr at;

	conform_options(LIMIT);
	child_start(&child, take_60_mib);
	wire_receive(child.socket, NULL);
	conform_context();
	cr_assert_eq(memory_free(), 4 * MIB);
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate, &handle, 6 * MIB, &prop, 0);
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2, &at, 6 * MIB);
	OK(cuMemAlloc_v2, &at, 4 * MIB);
	cr_assert_eq(memory_free(), 0);
	child_kill(&child);
	OK(cuMemCreate, &handle, 60 * MIB, &prop, 0);
	cr_assert_eq(memory_free(), 0);
}

Test(ledger, device_does_not_share_with_another)
{
	CUmemAllocationProp other = prop;
	CUmemGenericAllocationHandle handle;

	conform_options(LIMIT);
	conform_open();
	memory_create(64 * MIB);
	other.location.id = 1;
	OK(cuMemCreate, &handle, 64 * MIB, &other, 0);
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate, &handle, 2 * MIB, &other, 0);
}

static void use_another_machine(int socket)
{
	conform_options("machine=elsewhere-1:" LIMIT);
	conform_open();
	memory_create(64 * MIB);
	wire_send(socket, 1, -1);
	wire_receive(socket, NULL);
}

Test(ledger, machine_does_not_share_with_another)
{
	struct child child;

	conform_options(LIMIT);
	child_start(&child, use_another_machine);
	wire_receive(child.socket, NULL);
	conform_open();
	memory_create(64 * MIB);
	child_kill(&child);
}

static void make_and_die(int socket)
{
	CUmemGenericAllocationHandle handle;

	conform_open();
	handle = memory_create(60 * MIB);
	wire_send(socket, 1, memory_export(handle));
	wire_receive(socket, NULL);
}

Test(ledger, descriptor_in_a_process_without_driver_holds_the_memory)
{
	CUmemGenericAllocationHandle handle;
	struct child maker;
	int fd;

	conform_options(LIMIT);
	child_start(&maker, make_and_die);
	wire_receive(maker.socket, &fd);
	child_kill(&maker);
	conform_open();
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate, &handle, 6 * MIB, &prop, 0);
	close(fd);
	OK(cuMemCreate, &handle, 64 * MIB, &prop, 0);
}

/* Imports, maps, and keeps nothing but the mapping. */
static void hold_a_mapping(int socket)
{
	CUmemGenericAllocationHandle handle;
	int fd;

	wire_receive(socket, &fd);
	conform_context();
	handle = memory_import(fd);
	close(fd);
	memory_map(address_reserve(60 * MIB, 0), 60 * MIB, handle, WRITE);
	OK(cuMemRelease, handle);
	wire_send(socket, 1, -1);
	wire_receive(socket, NULL);
}

Test(ledger, mapping_in_another_process_holds_the_memory)
{
	CUmemGenericAllocationHandle handle;
	struct child holder;
	int fd;

	conform_options(LIMIT);
	child_start(&holder, hold_a_mapping);
	conform_open();
	handle = memory_create(60 * MIB);
	fd = memory_export(handle);
	wire_send(holder.socket, 1, fd);
	wire_receive(holder.socket, NULL);
	close(fd);
	OK(cuMemRelease, handle);
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate, &handle, 6 * MIB, &prop, 0);
	child_kill(&holder);
	OK(cuMemCreate, &handle, 64 * MIB, &prop, 0);
}

/* Another user: the limit holds, and files made by root can't be opened by name. */
static void import_as_another_user(int socket)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;
	int fd;

	wire_receive(socket, &fd);
	MUST(setgid(1000) == 0 && setuid(1000) == 0);
	conform_context();
	at = address_reserve(60 * MIB, 0);
	memory_map(at, 60 * MIB, memory_import(fd), WRITE);
	words_write(at, 1, 1024);
	MUST(words_match(at, 1, 1024));
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate, &handle, 6 * MIB, &prop, 0);
	memory_create(4 * MIB);
	wire_send(socket, 1, -1);
	wire_receive(socket, NULL);
}

Test(ledger, is_shared_between_users)
{
	CUmemGenericAllocationHandle handle;
	struct child other;

	needs_root();
	umask(077);
	conform_options(LIMIT);
	child_start(&other, import_as_another_user);
	conform_open();
	wire_send(other.socket, 1, memory_export(memory_create(60 * MIB)));
	cr_assert_eq(wire_receive(other.socket, NULL), 1);
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate, &handle, 2 * MIB, &prop, 0);
	child_kill(&other);
	OK(cuMemCreate, &handle, 4 * MIB, &prop, 0);
}

/* Who only closes a descriptor tells nobody that the memory is free. */
static void take_as_another_user(int socket)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;

	wire_receive(socket, NULL);
	MUST(setgid(1000) == 0 && setuid(1000) == 0);
	conform_context();
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate, &handle, 6 * MIB, &prop, 0);
	wire_send(socket, 1, -1);
	wire_receive(socket, NULL);
	MUST(memory_free() == 64 * MIB);
	OK(cuMemAlloc_v2, &at, 60 * MIB);
	wire_send(socket, 1, -1);
}

Test(ledger, memory_that_root_let_go_is_free_for_another_user)
{
	CUmemGenericAllocationHandle handle;
	struct child other;
	int fd;

	needs_root();
	conform_options(LIMIT);
	child_start(&other, take_as_another_user);
	conform_open();
	handle = memory_create(60 * MIB);
	fd = memory_export(handle);
	OK(cuMemRelease, handle);
	wire_send(other.socket, 1, -1);
	cr_assert_eq(wire_receive(other.socket, NULL), 1);
	close(fd);
	wire_send(other.socket, 1, -1);
	cr_assert_eq(wire_receive(other.socket, NULL), 1);
	child_finish(&other);
}

static void join_and_stay(int socket)
{
	conform_open();
	wire_send(socket, 1, -1);
	wire_receive(socket, NULL);
}

static void fill_as_root_and_stay(int socket)
{
	CUdeviceptr at;

	conform_context();
	memory_create(20 * MIB);
	OK(cuMemAllocManaged, &at, 8 * MIB, CU_MEM_ATTACH_GLOBAL);
	OK(cuMemPrefetchAsync, at, 8 * MIB, 0, NULL);
	OK(cuCtxSynchronize);
	wire_send(socket, 1, -1);
	wire_receive(socket, NULL);
}

static void look_as_another_user(int socket)
{
	wire_receive(socket, NULL);
	MUST(setgid(1000) == 0 && setuid(1000) == 0);
	conform_context();
	MUST(memory_free() == 44 * MIB);
	wire_send(socket, 1, -1);
}

/* Two processes of root count, and one of them has memory. */
Test(ledger, memory_of_a_killed_process_of_root_is_free_for_another_user)
{
	struct child killed, other, root;

	needs_root();
	needs_streams_in_children();
	conform_options(LIMIT);
	child_start(&killed, fill_as_root_and_stay);
	child_start(&other, look_as_another_user);
	child_start(&root, join_and_stay);
	wire_receive(killed.socket, NULL);
	wire_receive(root.socket, NULL);
	conform_open();
	memory_create(20 * MIB);
	child_kill(&killed);
	wire_send(other.socket, 0, -1);
	cr_assert_eq(wire_receive(other.socket, NULL), 1);
	child_finish(&other);
	child_kill(&root);
}

static void undo_the_lock(int socket)
{
	int fd;

	wire_receive(socket, &fd);
	if (geteuid() == 0)
		MUST(setgid(1000) == 0 && setuid(1000) == 0);
	MUST(flock(fd, LOCK_UN) == 0);
	wire_send(socket, 1, -1);
	wire_receive(socket, NULL);
}

/* All who have a copy of a descriptor have its locks. */
Test(ledger, memory_has_a_holder_whatever_another_holder_does_to_locks)
{
	CUmemGenericAllocationHandle handle;
	struct child holder;
	int fd;

	conform_options(LIMIT);
	child_start(&holder, undo_the_lock);
	conform_context();
	fd = memory_export(memory_create(60 * MIB));
	wire_send(holder.socket, 1, fd);
	wire_receive(holder.socket, NULL);
	cr_assert_eq(memory_free(), 4 * MIB);
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate, &handle, 6 * MIB, &prop, 0);
	OK(cuMemRelease, memory_import(fd));
	child_kill(&holder);
}

Test(ledger, holds_ten_thousand_handles)
{
	static CUmemGenericAllocationHandle handles[10000];

	conform_options("memory=64G");
	conform_context();
	for (size_t i = 0; i < ARRAY_SIZE(handles); i++)
		handles[i] = memory_create(2 * MIB);
	cr_assert_eq(memory_free(), 64 * 1024 * MIB - ARRAY_SIZE(handles) * 2 * MIB);
	for (size_t i = 0; i < ARRAY_SIZE(handles); i++)
		OK(cuMemRelease, handles[i]);
	cr_assert_eq(memory_free(), 64 * 1024 * MIB);
}

/* Returns: the path of the test's software machine, or of a file in its folder. */
static const char *left_behind(pid_t test, const char *file)
{
	static char path[128];

	snprintf(path, sizeof(path), "/dev/shm/gpumem-softgpu.left-behind-%d%s",
		 (int)test, file);
	return path;
}

static void join_and_die(int socket)
{
	char machine[64];

	snprintf(machine, sizeof(machine), "machine=left-behind-%d", (int)getppid());
	conform_options(machine);
	conform_open();
	memory_create(2 * MIB);
	wire_send(socket, 1, -1);
	wire_receive(socket, NULL);
}

Test(ledger, machine_that_nobody_uses_is_cleared_away)
{
	struct child child;

	child_start(&child, join_and_die);
	wire_receive(child.socket, NULL);
	cr_assert_eq(access(left_behind(getpid(), ""), F_OK), 0);
	child_kill(&child);
	conform_open();
	cr_assert_neq(access(left_behind(getpid(), ""), F_OK), 0);
}

static void become(uid_t id)
{
	MUST(setgid(id) == 0 && setuid(id) == 0);
}

static void join_as_another_user_and_die(int socket)
{
	become(1000);
	join_and_die(socket);
}

static void join_the_default_machine(int socket)
{
	conform_open();
	wire_send(socket, 1, -1);
	wire_receive(socket, NULL);
}

/* Removing leftovers takes the locks that root's processes need to count. */
Test(ledger, machine_that_root_uses_is_left_to_roots_processes)
{
	struct child root, other, stranger;

	needs_root();
	child_start(&root, join_and_die);
	wire_receive(root.socket, NULL);
	child_start(&other, join_as_another_user_and_die);
	wire_receive(other.socket, NULL);
	child_kill(&other);
	child_start(&stranger, join_the_default_machine);
	wire_receive(stranger.socket, NULL);
	cr_expect_eq(access(left_behind(getpid(), "/1000-0"), F_OK), 0);
	child_kill(&stranger);
	child_kill(&root);
	conform_open();
	cr_assert_neq(access(left_behind(getpid(), ""), F_OK), 0);
}

static void use_and_exit(int socket)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;

	conform_context();
	OK(cuMemAlloc_v2, &at, 4 * MIB);
	OK(cuMemAllocManaged, &at, 4 * MIB, CU_MEM_ATTACH_GLOBAL);
	OK(cuMemCreate, &handle, 4 * MIB, &prop, 0);
	wire_send(socket, 1, -1);
	wire_receive(socket, NULL);
	exit(0);
}

static void export_and_exit(int socket)
{
	conform_context();
	wire_send(socket, 1, memory_export(memory_create(4 * MIB)));
	wire_receive(socket, NULL);
	exit(0);
}

static bool machine_is_there(void)
{
	char path[128];

	snprintf(path, sizeof(path), "/dev/shm/gpumem-softgpu.conform-%d", (int)getpid());
	return access(path, F_OK) == 0;
}

Test(ledger, the_last_process_takes_the_machine_along)
{
	struct child first, second;

	child_start(&first, use_and_exit);
	child_start(&second, use_and_exit);
	wire_receive(first.socket, NULL);
	wire_receive(second.socket, NULL);
	wire_send(first.socket, 0, -1);
	child_finish(&first);
	wire_send(second.socket, 0, -1);
	child_finish(&second);
	cr_assert(!machine_is_there());
}

Test(ledger, a_process_that_exits_gives_its_memory_back)
{
	struct child child;

	conform_options(LIMIT);
	child_start(&child, use_and_exit);
	wire_receive(child.socket, NULL);
	conform_context();
	cr_assert_eq(memory_free(), 56 * MIB);
	wire_send(child.socket, 0, -1);
	child_finish(&child);
	cr_assert_eq(memory_free(), 64 * MIB);
}

Test(ledger, exported_memory_stays_when_its_maker_exits)
{
	struct child child;
	CUdeviceptr at;
	int fd;

	conform_options(LIMIT);
	child_start(&child, export_and_exit);
	wire_receive(child.socket, &fd);
	wire_send(child.socket, 0, -1);
	child_finish(&child);
	cr_assert(machine_is_there());
	conform_context();
	cr_assert_eq(memory_free(), 60 * MIB);
	at = address_reserve(4 * MIB, 0);
	memory_map(at, 4 * MIB, memory_import(fd), WRITE);
	words_write(at, 1, MIB);
	close(fd);
}

static int lock_one(const char *path, const struct stat *stat, int flag, struct FTW *ftw)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK);

	(void)stat, (void)flag, (void)ftw;
	if (fd >= 0)
		flock(fd, LOCK_EX | LOCK_NB);
	return 0;
}

/* Takes every lock of the machine that this process may take, and never lets go. */
static void lock_all(void)
{
	char path[128];

	snprintf(path, sizeof(path), "/dev/shm/gpumem-softgpu.conform-%d",
		 (int)getppid());
	MUST(nftw(path, lock_one, 8, FTW_PHYS) == 0);
}

static void lock_as_a_stranger(int socket)
{
	wire_receive(socket, NULL);
	become(65534);
	lock_all();
	wire_send(socket, 1, -1);
	wire_receive(socket, NULL);
}

/* Behaves like a process that is stopped in the middle of a call. */
static void lock_as_a_member(int socket)
{
	CUdeviceptr at;

	wire_receive(socket, NULL);
	become(1000);
	conform_context();
	memory_create(20 * MIB);
	OK(cuMemAllocManaged, &at, 4 * MIB, CU_MEM_ATTACH_GLOBAL);
	OK(cuMemPrefetchAsync, at, 4 * MIB, 0, NULL);
	OK(cuCtxSynchronize);
	lock_all();
	wire_send(socket, 1, -1);
	wire_receive(socket, NULL);
}

/* Does everything that locks the ledger: join, allocate, count, evict, leave. */
static void use_in_time(int socket)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;

	wire_receive(socket, NULL);
	alarm(20);
	conform_context();
	OK(cuMemAllocManaged, &at, 8 * MIB, CU_MEM_ATTACH_GLOBAL);
	OK(cuMemPrefetchAsync, at, 8 * MIB, 0, NULL);
	OK(cuCtxSynchronize);
	handle = memory_create(40 * MIB);
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate, &handle, 30 * MIB, &prop, 0);
	MUST(memory_free() <= 24 * MIB);
	OK(cuMemRelease, handle);
	wire_send(socket, 1, -1);
	exit(0);
}

/* Starts a process of root, then the process with the locks, then another process of
 * root. */
static void locked_by(void (*body)(int socket))
{
	struct child maker, locker, user;

	needs_root();
	needs_streams_in_children();
	conform_options(LIMIT);
	child_start(&maker, join_and_stay);
	child_start(&locker, body);
	child_start(&user, use_in_time);
	wire_receive(maker.socket, NULL);
	wire_send(locker.socket, 0, -1);
	cr_assert_eq(wire_receive(locker.socket, NULL), 1);
	wire_send(user.socket, 0, -1);
	cr_assert_eq(wire_receive(user.socket, NULL), 1);
	child_finish(&user);
	child_kill(&locker);
	child_kill(&maker);
}

Test(ledger, locks_of_a_stranger_hold_up_nobody)
{
	locked_by(lock_as_a_stranger);
}

Test(ledger, locks_of_another_users_process_hold_up_nobody)
{
	locked_by(lock_as_a_member);
}

/* SPDX-License-Identifier: MIT */
/* Memory shared between processes, and its fate when they die. */
#include "conform.h"

#include <fcntl.h>

SUITE(share);

#define SIZE  (64 * MIB)
#define WORDS (SIZE / sizeof(uint32_t))
#define WRITE CU_MEM_ACCESS_FLAGS_PROT_READWRITE
#define READ  CU_MEM_ACCESS_FLAGS_PROT_READ

static CUdeviceptr map_at_the_address(CUmemGenericAllocationHandle handle,
				      CUmemAccess_flags flags)
{
	CUdeviceptr at = address_reserve(SIZE, ADDRESS);

	MUST(at == ADDRESS);
	memory_map(at, SIZE, handle, flags);
	return at;
}

/* Allocates and writes memory, sends its descriptor, and waits to be ended. */
static void make_and_stay(int socket)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;

	conform_context();
	handle = memory_create(SIZE);
	at = map_at_the_address(handle, WRITE);
	words_write(at, 1234, WORDS);
	wire_send(socket, at, memory_export(handle));
	wire_receive(socket, NULL);
}

/* Takes a descriptor, checks the words at the same address, and goes. */
static void import_and_check(int socket)
{
	CUdeviceptr told, at;
	int fd;

	told = wire_receive(socket, &fd);
	conform_context();
	at = map_at_the_address(memory_import(fd), WRITE);
	MUST(at == told);
	MUST(words_match(at, 1234, WORDS));
	wire_send(socket, 1, -1);
}

Test(share, memory_is_read_in_another_process_at_the_same_address)
{
	struct child maker, reader;
	CUdeviceptr at;
	int fd;

	child_start(&maker, make_and_stay);
	child_start(&reader, import_and_check);
	at = wire_receive(maker.socket, &fd);
	wire_send(reader.socket, at, fd);
	cr_assert_eq(wire_receive(reader.socket, NULL), 1);
	child_finish(&reader);
	wire_send(maker.socket, 0, -1);
	child_finish(&maker);
}

/* The test's process holds the descriptor and never loads a driver. */
Test(share, memory_outlives_its_maker_while_a_descriptor_is_held)
{
	struct child maker, reader;
	CUdeviceptr at;
	int fd;

	child_start(&maker, make_and_stay);
	child_start(&reader, import_and_check);
	at = wire_receive(maker.socket, &fd);
	child_kill(&maker);
	wire_send(reader.socket, at, fd);
	cr_assert_eq(wire_receive(reader.socket, NULL), 1);
	child_finish(&reader);
}

/* The broker allocates like this, without a context. */
static void make_without_context(int socket)
{
	CUmemGenericAllocationHandle handle;

	conform_open();
	handle = memory_create(SIZE);
	wire_send(socket, ADDRESS, memory_export(handle));
	wire_receive(socket, NULL);
}

static void import_and_write(int socket)
{
	int fd;

	wire_receive(socket, &fd);
	conform_context();
	words_write(map_at_the_address(memory_import(fd), WRITE), 1234, WORDS);
	wire_send(socket, 1, -1);
	wire_receive(socket, NULL);
}

Test(share, memory_of_a_process_without_context_is_used_by_others)
{
	struct child owner, writer, reader;
	int fd;

	child_start(&owner, make_without_context);
	child_start(&writer, import_and_write);
	child_start(&reader, import_and_check);
	wire_receive(owner.socket, &fd);
	wire_send(writer.socket, ADDRESS, fd);
	cr_assert_eq(wire_receive(writer.socket, NULL), 1);
	child_kill(&writer);
	wire_send(reader.socket, ADDRESS, fd);
	cr_assert_eq(wire_receive(reader.socket, NULL), 1);
	child_finish(&reader);
	wire_send(owner.socket, 0, -1);
	child_finish(&owner);
}

static void import_read_only(int socket)
{
	uint32_t word = 0;
	CUdeviceptr at;
	int fd;

	wire_receive(socket, &fd);
	conform_context();
	at = map_at_the_address(memory_import(fd), READ);
	MUST(words_match(at, 1234, WORDS));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2, at, &word, sizeof(word));
	wire_send(socket, 1, -1);
}

Test(share, memory_mapped_read_only_is_read_in_another_process)
{
	struct child maker, reader;
	int fd;

	child_start(&maker, make_and_stay);
	child_start(&reader, import_read_only);
	wire_receive(maker.socket, &fd);
	wire_send(reader.socket, ADDRESS, fd);
	cr_assert_eq(wire_receive(reader.socket, NULL), 1);
	child_finish(&reader);
	wire_send(maker.socket, 0, -1);
	child_finish(&maker);
}

Test(share, descriptor_may_be_closed_once_imported)
{
	CUmemGenericAllocationHandle handle, imported;
	CUmemAllocationProp prop;
	CUdeviceptr at;
	int fd;

	conform_context();
	handle = memory_create(SIZE);
	fd = memory_export(handle);
	imported = memory_import(fd);
	close(fd);
	OK(cuMemRelease, handle);
	OK(cuMemGetAllocationPropertiesFromHandle, &prop, imported);
	cr_assert_eq(prop.location.id, 0);
	at = map_at_the_address(imported, WRITE);
	words_write(at, 2, WORDS);
	cr_assert(words_match(at, 2, WORDS));
}

Test(share, imported_memory_is_not_exported_again)
{
	CUmemGenericAllocationHandle handle, imported, retained;
	int fd, other = -1;
	CUdeviceptr at;

	conform_context();
	handle = memory_create(SIZE);
	fd = memory_export(handle);
	imported = memory_import(fd);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle, &other, imported,
	      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	at = map_at_the_address(imported, WRITE);
	OK(cuMemRetainAllocationHandle, &retained, (void *)(uintptr_t)at);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle, &other, retained,
	      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	cr_assert_eq(other, -1);
	/* The process that made the memory may export it many times. */
	close(memory_export(handle));
	close(fd);
}

/* Drivers differ in the error. */
Test(share, descriptor_of_no_memory_is_refused)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	CUmemGenericAllocationHandle handle;

	conform_open();
	cr_assert_neq(driver->fn_cuMemImportFromShareableHandle(
			      &handle, (void *)(intptr_t)fd,
			      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
		      CUDA_SUCCESS);
	cr_assert_neq(driver->fn_cuMemImportFromShareableHandle(
			      &handle, (void *)(intptr_t)12345,
			      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
		      CUDA_SUCCESS);
	OK(cuMemRelease, memory_create(SIZE));
}

static void call_after_fork(int socket)
{
	int n;

	MUST(driver->fn_cuDeviceGetCount(&n) != CUDA_SUCCESS ||
	     driver->fn_cuInit(0) != CUDA_SUCCESS ||
	     driver->fn_cuCtxSynchronize() != CUDA_SUCCESS);
	wire_send(socket, 1, -1);
}

Test(share, driver_does_not_survive_a_fork)
{
	struct child child;

	conform_context();
	child_start(&child, call_after_fork);
	cr_assert_eq(wire_receive(child.socket, NULL), 1);
	child_finish(&child);
}

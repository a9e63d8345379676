/* SPDX-License-Identifier: MIT */
/*
 * Helpers of the conformance tests: the driver under test, calls that must succeed or
 * fail with a given result, and other processes.
 *
 * The environment variable GPUMEM_DRIVER names the library. A driver does not survive
 * fork(), so the library is loaded only when a test asks for it: a test with other
 * processes starts these first.
 */
#pragma once

#include "cuda/driver.h"

#include <criterion/criterion.h>
#include <sys/types.h>

#define MIB ((size_t)1 << 20)

/*
 * The start of an address range that no other mapping uses, and the range's bytes.
 * Programs with the thread sanitizer have a different and smaller free range.
 */
#ifdef __SANITIZE_THREAD__
#define ADDRESS	     ((CUdeviceptr)0x7e8000000000)
#define ADDRESS_SIZE ((size_t)64 << 30)
#else
#define ADDRESS	     ((CUdeviceptr)0x200000000000)
#define ADDRESS_SIZE ((size_t)1 << 40)
#endif

/* Every test program's suites are SUITE(name): a minute a test, and no traces left. */
#define SUITE(name) \
	TestSuite(name, .init = conform_init, .fini = conform_fini, .timeout = 60)

extern struct cuda_driver *driver;

void conform_init(void);
void conform_fini(void);

/* Options for the software GPU in place of two devices of 1 GiB. Call before
 * conform_open(). */
void conform_options(const char *options);

/* Loads the driver, cuInit and no context. */
void conform_open(void);

/* conform_open(), and device 0's primary context made current. */
CUcontext conform_context(void);

/* Skips the test, with the reason, where the machine has fewer devices. */
void conform_need_devices(int n);

/* A call that must return CUDA_SUCCESS, or the given result. */
#define OK(symbol, ...)                                           \
	conform_expect(__FILE__, __LINE__, #symbol, CUDA_SUCCESS, \
		       driver->fn_##symbol(__VA_ARGS__))
#define FAILS(result, symbol, ...)                          \
	conform_expect(__FILE__, __LINE__, #symbol, result, \
		       driver->fn_##symbol(__VA_ARGS__))

void conform_expect(const char *file, int line, const char *symbol, int expected,
		    int result);

/* A condition that must hold, in this process or in a child. */
#define MUST(condition) conform_must(__FILE__, __LINE__, #condition, condition)

void conform_must(const char *file, int line, const char *text, bool holds);

/* Another process, with a socket to the test. */
struct child {
	pid_t pid;
	int socket;
};

/*
 * Starts a process that runs body with its end of the socket and then exits with 0. A
 * failed OK, FAILS or MUST ends the process with 1. The driver is not loaded yet.
 */
void child_start(struct child *child, void (*body)(int socket));

/* child_finish() waits for exit 0; child_kill() sends SIGKILL and waits. */
void child_finish(struct child *child);
void child_kill(struct child *child);

/* Messages: a number, with a descriptor or without (-1). */
void wire_send(int socket, uint64_t number, int fd);
uint64_t wire_receive(int socket, int *ret_fd);

/* Exportable physical memory of device 0; addresses; a mapping with access rights. */
CUmemGenericAllocationHandle memory_create(size_t size);
int memory_export(CUmemGenericAllocationHandle handle);
CUmemGenericAllocationHandle memory_import(int fd);
CUdeviceptr address_reserve(size_t size, CUdeviceptr hint);
void memory_map(CUdeviceptr at, size_t size, CUmemGenericAllocationHandle handle,
		CUmemAccess_flags flags);
void memory_access(CUdeviceptr at, size_t size, CUmemAccess_flags flags);

/* Write and compare device memory through cuMemcpy, in words of 32 bits. */
void words_write(CUdeviceptr at, uint32_t first, size_t n);
bool words_match(CUdeviceptr at, uint32_t first, size_t n);
bool words_are_zero(CUdeviceptr at, size_t n);

/* The free memory of the current device, and whether so much comes back within 10 s. */
size_t memory_free(void);
bool memory_comes_back(size_t expected);

/* A host function for cuLaunchHostFunc that waits until the gate is opened. */
struct gate {
	int fds[2];
};
void gate_init(struct gate *gate);
void gate_open(struct gate *gate);
void gate_wait(void *gate);

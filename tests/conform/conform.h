/* SPDX-License-Identifier: MIT */
/*
 * What the conformance tests share: the driver under test, calls that must succeed or
 * fail in one way, and other processes.
 *
 * The library is the one named by the environment variable GPUMEM_DRIVER. Nothing is
 * loaded until a test asks for it, because a driver doesn't survive fork(): a test
 * that needs other processes starts them first.
 */
#pragma once

#include "cuda/driver.h"

#include <criterion/criterion.h>
#include <sys/types.h>

#define MIB ((size_t)1 << 20)

/*
 * Addresses that nothing else is at, the project's own choice, and as many bytes from
 * there as a test may ask for. The thread sanitizer leaves others free, and fewer.
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

/* Other options for the software GPU than two devices of 1 GiB; before it is opened. */
void conform_options(const char *options);

/* Loads the driver, cuInit and no context. */
void conform_open(void);

/* The same, with device 0's primary context current. */
CUcontext conform_context(void);

/* Skips the test, with the reason, where the machine has fewer devices. */
void conform_need_devices(int n);

/* A call that must give CUDA_SUCCESS, or a certain result. */
#define OK(symbol, ...)                                           \
	conform_expect(__FILE__, __LINE__, #symbol, CUDA_SUCCESS, \
		       driver->fn_##symbol(__VA_ARGS__))
#define FAILS(result, symbol, ...)                          \
	conform_expect(__FILE__, __LINE__, #symbol, result, \
		       driver->fn_##symbol(__VA_ARGS__))

void conform_expect(const char *file, int line, const char *symbol, int expected,
		    int result);

/* What must hold, in this process or in a child. */
#define MUST(condition) conform_must(__FILE__, __LINE__, #condition, condition)

void conform_must(const char *file, int line, const char *text, bool holds);

/* Another process, with a socket to the test. */
struct child {
	pid_t pid;
	int socket;
};

/*
 * Starts a process that runs body with its end of the socket and then exits with 0; an
 * OK, FAILS or MUST that doesn't hold ends it with 1. The driver is not loaded yet.
 */
void child_start(struct child *child, void (*body)(int socket));

/* Waits for its end, which must have been exit 0, or SIGKILL where killed. */
void child_finish(struct child *child);
void child_kill(struct child *child);

/* Messages: a number, with a descriptor or without (-1). */
void wire_send(int socket, uint64_t number, int fd);
uint64_t wire_receive(int socket, int *ret_fd);

/* Physical memory of device 0 that can be exported, and a mapping of it with access. */
CUmemGenericAllocationHandle memory_create(size_t size);
int memory_export(CUmemGenericAllocationHandle handle);
CUmemGenericAllocationHandle memory_import(int fd);
CUdeviceptr address_reserve(size_t size, CUdeviceptr hint);
void memory_map(CUdeviceptr at, size_t size, CUmemGenericAllocationHandle handle,
		CUmemAccess_flags flags);
void memory_access(CUdeviceptr at, size_t size, CUmemAccess_flags flags);

/* Writes and looks at device memory through cuMemcpy, 32 bits at a time. */
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

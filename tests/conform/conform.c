/* SPDX-License-Identifier: MIT */
/*
 * Helpers of the conformance tests, see conform.h.
 *
 * Every test has a separate software machine, so concurrent tests don't share device
 * memory. On hardware, tests must cope with a shared device.
 */
#include "conform.h"

#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "base/text.h"

struct cuda_driver *driver;

static bool in_child;
static char machine[64];

void conform_options(const char *options)
{
	char variable[512];

	snprintf(variable, sizeof(variable), "machine=%s:%s", machine, options);
	setenv("GPUMEM_SOFTGPU", variable, 1);
}

void conform_init(void)
{
	snprintf(machine, sizeof(machine), "conform-%d", (int)getpid());
	conform_options("devices=2:memory=1G");
}

static int remove_one(const char *path, const struct stat *stat, int flag,
		      struct FTW *ftw)
{
	(void)stat, (void)flag, (void)ftw;
	return remove(path);
}

/* The directory of the software machine; there is none on hardware. */
void conform_fini(void)
{
	char path[128];

	snprintf(path, sizeof(path), "/dev/shm/gpumem-softgpu.%s", machine);
	nftw(path, remove_one, 8, FTW_PHYS | FTW_DEPTH);
}

static void fail(const char *file, int line, const char *text)
{
	if (!in_child)
		cr_assert_fail("%s:%d: %s", file, line, text);
	fprintf(stderr, "%s:%d: in a child: %s\n", file, line, text);
	_exit(1);
}

void conform_must(const char *file, int line, const char *text, bool holds)
{
	if (!holds)
		fail(file, line, text);
}

void conform_expect(const char *file, int line, const char *symbol, int expected,
		    int result)
{
	char text[256];

	if (result == expected)
		return;
	snprintf(text, sizeof(text), "%s gave %s (%d), not %s", symbol,
		 cuda_result_name(result), result, cuda_result_name(expected));
	fail(file, line, text);
}

void conform_open(void)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	const char *path = getenv("GPUMEM_DRIVER");

	if (cuda_driver_open(path ? path : "libcuda.so.1", &driver, &why) < 0)
		fail(__FILE__, __LINE__, text_string(&why));
}

CUcontext conform_context(void)
{
	CUcontext context;

	conform_open();
	OK(cuDevicePrimaryCtxRetain, &context, 0);
	OK(cuCtxSetCurrent, context);
	return context;
}

void conform_need_devices(int n)
{
	int there;

	OK(cuDeviceGetCount, &there);
	if (there < n)
		cr_skip_test("the machine has fewer than %d devices", n);
}

void child_start(struct child *child, void (*body)(int socket))
{
	int pair[2];

	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	child->pid = fork();
	MUST(child->pid >= 0);
	if (child->pid == 0) {
		in_child = true;
		close(pair[0]);
		body(pair[1]);
		_exit(0);
	}
	close(pair[1]);
	child->socket = pair[0];
}

void child_finish(struct child *child)
{
	int status;

	closep(&child->socket);
	MUST(waitpid(child->pid, &status, 0) == child->pid);
	MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void child_kill(struct child *child)
{
	int status;

	MUST(kill(child->pid, SIGKILL) == 0);
	MUST(waitpid(child->pid, &status, 0) == child->pid);
	MUST(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	closep(&child->socket);
}

void wire_send(int socket, uint64_t number, int fd)
{
	struct iovec part = { &number, sizeof(number) };
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	if (fd >= 0) {
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	}
	MUST(sendmsg(socket, &message, MSG_NOSIGNAL) == sizeof(number));
}

uint64_t wire_receive(int socket, int *ret_fd)
{
	uint64_t number = 0;
	struct iovec part = { &number, sizeof(number) };
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *header;

	MUST(recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == sizeof(number));
	header = CMSG_FIRSTHDR(&message);
	if (ret_fd) {
		MUST(header && header->cmsg_type == SCM_RIGHTS);
		memcpy(ret_fd, CMSG_DATA(header), sizeof(*ret_fd));
	}
	return number;
}

static CUmemAllocationProp memory_prop(void)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
}

CUmemGenericAllocationHandle memory_create(size_t size)
{
	const CUmemAllocationProp prop = memory_prop();
	CUmemGenericAllocationHandle handle;

	OK(cuMemCreate, &handle, size, &prop, 0);
	return handle;
}

int memory_export(CUmemGenericAllocationHandle handle)
{
	int fd = -1;

	OK(cuMemExportToShareableHandle, &fd, handle,
	   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	MUST(fd >= 0);
	return fd;
}

CUmemGenericAllocationHandle memory_import(int fd)
{
	CUmemGenericAllocationHandle handle;

	OK(cuMemImportFromShareableHandle, &handle, (void *)(intptr_t)fd,
	   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	return handle;
}

CUdeviceptr address_reserve(size_t size, CUdeviceptr hint)
{
	CUdeviceptr at;

	OK(cuMemAddressReserve, &at, size, 0, hint, 0);
	return at;
}

void memory_access(CUdeviceptr at, size_t size, CUmemAccess_flags flags)
{
	const CUmemAccessDesc desc = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
		.flags = flags,
	};

	OK(cuMemSetAccess, at, size, &desc, 1);
}

void memory_map(CUdeviceptr at, size_t size, CUmemGenericAllocationHandle handle,
		CUmemAccess_flags flags)
{
	OK(cuMemMap, at, size, 0, handle, 0);
	if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
		memory_access(at, size, flags);
}

void words_write(CUdeviceptr at, uint32_t first, size_t n)
{
	_cleanup_free_ uint32_t *words = malloc(n * sizeof(*words));

	for (size_t i = 0; i < n; i++)
		words[i] = first + (uint32_t)i;
	OK(cuMemcpyHtoD_v2, at, words, n * sizeof(*words));
}

static bool words_are(CUdeviceptr at, uint32_t first, uint32_t step, size_t n)
{
	_cleanup_free_ uint32_t *words = malloc(n * sizeof(*words));

	OK(cuMemcpyDtoH_v2, words, at, n * sizeof(*words));
	for (size_t i = 0; i < n; i++)
		if (words[i] != first + step * (uint32_t)i)
			return false;
	return true;
}

bool words_match(CUdeviceptr at, uint32_t first, size_t n)
{
	return words_are(at, first, 1, n);
}

bool words_are_zero(CUdeviceptr at, size_t n)
{
	return words_are(at, 0, 0, n);
}

size_t memory_free(void)
{
	size_t bytes, total;

	OK(cuMemGetInfo_v2, &bytes, &total);
	return bytes;
}

/* The driver needs some moments to free the memory of a killed process. */
bool memory_comes_back(size_t expected)
{
	const struct timespec moment = { 0, 10000000 };

	for (int i = 0; i < 1000; i++) {
		if (memory_free() >= expected)
			return true;
		nanosleep(&moment, NULL);
	}
	return false;
}

void gate_init(struct gate *gate)
{
	MUST(pipe2(gate->fds, O_CLOEXEC) == 0);
}

void gate_open(struct gate *gate)
{
	MUST(write(gate->fds[1], "", 1) == 1);
}

void gate_wait(void *gate)
{
	struct pollfd poller = { .fd = ((struct gate *)gate)->fds[0], .events = POLLIN };

	while (poll(&poller, 1, -1) != 1)
		continue;
}

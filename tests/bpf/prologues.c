/* SPDX-License-Identifier: MIT */
/*
 * A driver library whose calls open with instructions that make probes slow or stack
 * walks hard. The library also has calls that the software GPU lacks: old versions,
 * per-thread variants, managed and pitched memory, IPC. There is no GPU: addresses count
 * up, memory has no contents, and every call succeeds. After fakeResult(N) the next call
 * returns N.
 *
 * Openings of real libraries: the kernel emulates `push`. The kernel single-steps `cmpl`
 * on a variable (the hooks of NVIDIA's debuggers), `endbr64` and `sub`; after these, a
 * stack walk at entry looks for the caller in the wrong place. A 5-byte nop must not be
 * probed at all.
 */
#include <stddef.h>
#include <stdint.h>

#define PUSH  "push %rbp\n\tpop %rbp\n"
#define CMP   "cmpl $0x321cba00, fake_hooks(%rip)\n\tje 1f\n1:\tpush %rbp\n\tpop %rbp\n"
#define ENDBR "endbr64\n"
#define SUB   "sub $0x18, %rsp\n\tadd $0x18, %rsp\n"
#define NOP5  ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n"

__attribute__((used, visibility("hidden"))) int fake_hooks;

static int next_result;
static uint64_t next_address = 0x7f0000001000;

static int result(void)
{
	int now = next_result;

	next_result = 0;
	return now;
}

__attribute__((visibility("default"))) int fakeResult(int n);

int fakeResult(int n)
{
	next_result = n;
	return 0;
}

static uint64_t take(uint64_t size)
{
	uint64_t address = next_address;

	next_address += (size + 511) & ~UINT64_C(511);
	return address;
}

/* CALL(SYMBOL, OPENING, (PARAMETERS)) BODY: defines the symbol with its opening; the
 * opening continues into BODY, a separate function. */
#define CALL(symbol, opening, parameters)                                           \
	__asm__(".text\n.globl " #symbol "\n.type " #symbol ", @function\n" #symbol \
		":\n\t" opening "\tjmp body_" #symbol "\n.size " #symbol            \
		", . - " #symbol "\n");                                             \
	__attribute__((used, visibility("hidden"))) int body_##symbol parameters;   \
	int body_##symbol parameters

CALL(cuInit, ENDBR, (void))
{
	return result();
}

CALL(cuCtxCreate_v2, SUB, (uint64_t * ctx))
{
	*ctx = take(1);
	return result();
}

CALL(cuCtxDestroy_v2, SUB, (void))
{
	return result();
}

CALL(cuMemAlloc_v2, CMP, (uint64_t * dptr, size_t size))
{
	if (next_result)
		return result();
	*dptr = take(size);
	return 0;
}

CALL(cuMemFree_v2, ENDBR, (void))
{
	return result();
}

/* The versions of CUDA 2: pointers and sizes have 32 bits. */
CALL(cuMemAlloc, PUSH, (uint32_t * dptr, unsigned int size))
{
	*dptr = (uint32_t)take(size);
	return result();
}

CALL(cuMemFree, PUSH, (void))
{
	return result();
}

CALL(cuMemAllocPitch_v2, SUB,
     (uint64_t * dptr, size_t *pitch, size_t width, size_t height))
{
	*pitch = (width + 511) & ~(size_t)511;
	*dptr = take(*pitch * height);
	return result();
}

CALL(cuMemAllocManaged, CMP, (uint64_t * dptr, size_t size))
{
	*dptr = take(size);
	return result();
}

CALL(cuMemHostAlloc, PUSH, (uint64_t * pp, size_t size))
{
	*pp = take(size);
	return result();
}

CALL(cuMemAllocHost_v2, CMP, (uint64_t * pp, size_t size))
{
	*pp = take(size);
	return result();
}

CALL(cuMemFreeHost, PUSH, (void))
{
	return result();
}

CALL(cuMemHostRegister_v2, SUB, (void))
{
	return result();
}

CALL(cuMemHostUnregister, ENDBR, (void))
{
	return result();
}

CALL(cuIpcGetMemHandle, PUSH, (void))
{
	return result();
}

CALL(cuIpcOpenMemHandle_v2, PUSH, (uint64_t * dptr))
{
	*dptr = take(1);
	return result();
}

CALL(cuIpcCloseMemHandle, PUSH, (void))
{
	return result();
}

CALL(cuMemAllocAsync, ENDBR, (uint64_t * dptr, size_t size))
{
	*dptr = take(size);
	return result();
}

CALL(cuMemAllocAsync_ptsz, CMP, (uint64_t * dptr, size_t size))
{
	*dptr = take(size);
	return result();
}

CALL(cuMemFreeAsync, SUB, (void))
{
	return result();
}

CALL(cuMemFreeAsync_ptsz, CMP, (void))
{
	return result();
}

CALL(cuMemPrefetchAsync, CMP, (void))
{
	return result();
}

CALL(cuMemPrefetchAsync_ptsz, ENDBR, (void))
{
	return result();
}

CALL(cuMemPrefetchAsync_v2, SUB, (void))
{
	return result();
}

CALL(cuMemPrefetchAsync_v2_ptsz, PUSH, (void))
{
	return result();
}

CALL(cuMemAdvise, ENDBR, (void))
{
	return result();
}

CALL(cuMemAdvise_v2, CMP, (void))
{
	return result();
}

CALL(cuStreamAttachMemAsync, PUSH, (void))
{
	return result();
}

CALL(cuMemcpyHtoD_v2_ptds, CMP, (void))
{
	return result();
}

CALL(cuMemcpy3D_v2, PUSH, (void))
{
	return result();
}

CALL(cuMemcpy2D_v2, SUB, (void))
{
	return result();
}

CALL(cuMemsetD2D32_v2, ENDBR, (void))
{
	return result();
}

CALL(cuMemcpyAsync, NOP5, (void))
{
	return result();
}

CALL(cuMemcpyDtoD_v2, CMP, (void))
{
	return result();
}

/* Another name of the same function. */
__asm__(".globl cuMemcpyDtoD_v2_ptds\n.set cuMemcpyDtoD_v2_ptds, cuMemcpyDtoD_v2\n");

CALL(cuModuleLoad, PUSH, (uint64_t * module))
{
	*module = take(1);
	return result();
}

CALL(cuLibraryLoadData, CMP, (uint64_t * library))
{
	*library = take(1);
	return result();
}

CALL(cuLibraryGetKernel, SUB, (uint64_t * kernel))
{
	*kernel = take(1);
	return result();
}

CALL(cuKernelGetFunction, PUSH, (uint64_t * function))
{
	*function = take(1);
	return result();
}

CALL(cuLaunchKernel, PUSH, (void))
{
	return result();
}

CALL(cuLaunchKernelEx, ENDBR, (void))
{
	return result();
}

/* SPDX-License-Identifier: MIT */
/*
 * How an exported call of the software GPU is written.
 *
 *	CALL(cuMemAlloc_v2, NEED_CONTEXT, (CUdeviceptr *ret, size_t size), (ret, size))
 *	{
 *		...
 *	}
 *
 * defines the exported cuMemAlloc_v2, checked against the row of the X-list, around a
 * body that runs under the lock of the library. A body waits with call_wait(), or between
 * call_unlock() and call_lock(); objects looked up before may be gone after.
 */
#pragma once

#include "cuda/driver.h"
#include "inject.h"

#include <pthread.h>

/* The condition checked before the body of a call runs. */
enum call_need {
	NEED_NOTHING, /* works before cuInit and after a fault */
	NEED_INIT,
	NEED_CONTEXT, /* a context is current, and alive */
};

/* The exported functions; the assembler names are those of the list. */
#define CALL_DECLARE(symbol, version, need, parameters)             \
	extern CUresult export_##symbol parameters __asm__(#symbol) \
		__attribute__((visibility("default")));
CUDA_DRIVER_LIST(CALL_DECLARE)
CUDA_DRIVER_LIST_PROC(CALL_DECLARE)
#undef CALL_DECLARE

#define CALL(symbol, need, params, args)                               \
	static CUresult body_##symbol params;                          \
	CUresult export_##symbol params                                \
	{                                                              \
		CUresult result = call_enter(CUDA_ROW_##symbol, need); \
                                                                       \
		if (!result)                                           \
			result = body_##symbol args;                   \
		return call_leave(result);                             \
	}                                                              \
	static CUresult body_##symbol params

/* Takes the lock, also where the result is an error; call_leave() lets the lock go. */
CUresult call_enter(int call, enum call_need need);
CUresult call_leave(CUresult result);

void call_lock(void);
void call_unlock(void);
void call_wait(pthread_cond_t *cond);

/* Ends early when the control file changes. */
void call_sleep(struct delay delay);

/* The injected faults of a call that call_enter() let in before cuInit. */
CUresult call_inject(int call);

/* The injected delay of this thread's call, taken by work that the call queues. */
struct delay call_take_delay(void);

/* The process has lost its contexts: every later call answers this result. */
void call_poison(CUresult result);
CUresult call_poisoned(void);

/* Whether the process has lost its contexts; without the lock. */
bool call_poisoned_now(void);

/* After a successful cuInit. */
void call_set_initialized(void);
bool call_is_initialized(void);

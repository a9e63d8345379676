/* SPDX-License-Identifier: MIT */
/* Streams, events and their order. */
#include "conform.h"

#include <pthread.h>
#include <stdatomic.h>

SUITE(stream);
SUITE(event);

struct note {
	atomic_int *counter;
	int seen;
};

/* Records its position among the host functions. */
static void take_note(void *data)
{
	struct note *note = data;

	note->seen = atomic_fetch_add(note->counter, 1) + 1;
}

static CUstream stream_new(unsigned int flags)
{
	CUstream stream;

	OK(cuStreamCreate, &stream, flags);
	return stream;
}

static CUevent event_new(unsigned int flags)
{
	CUevent event;

	OK(cuEventCreate, &event, flags);
	return event;
}

Test(stream, runs_beside_its_caller)
{
	struct gate gate;
	CUstream stream;

	conform_context();
	gate_init(&gate);
	stream = stream_new(CU_STREAM_NON_BLOCKING);
	OK(cuStreamQuery, stream);
	OK(cuLaunchHostFunc, stream, gate_wait, &gate);
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery, stream);
	gate_open(&gate);
	OK(cuStreamSynchronize, stream);
	OK(cuStreamQuery, stream);
	OK(cuStreamDestroy_v2, stream);
}

Test(stream, keeps_the_order_of_its_work)
{
	atomic_int counter = 0;
	struct note notes[8];
	struct gate gate;
	CUstream stream;

	conform_context();
	gate_init(&gate);
	stream = stream_new(CU_STREAM_NON_BLOCKING);
	OK(cuLaunchHostFunc, stream, gate_wait, &gate);
	for (size_t i = 0; i < ARRAY_SIZE(notes); i++) {
		notes[i] = (struct note){ &counter, 0 };
		OK(cuLaunchHostFunc, stream, take_note, &notes[i]);
	}
	cr_assert_eq(counter, 0);
	gate_open(&gate);
	OK(cuStreamSynchronize, stream);
	for (size_t i = 0; i < ARRAY_SIZE(notes); i++)
		cr_assert_eq(notes[i].seen, (int)i + 1);
}

Test(stream, work_waits_behind_what_is_before_it)
{
	struct gate gate;
	CUstream stream;
	CUdeviceptr at;
	void *host;

	conform_context();
	gate_init(&gate);
	stream = stream_new(CU_STREAM_NON_BLOCKING);
	OK(cuMemAlloc_v2, &at, 4096);
	OK(cuMemHostAlloc, &host, 4096, 0);
	OK(cuMemsetD32_v2, at, 1, 1024);
	OK(cuCtxSynchronize);
	OK(cuLaunchHostFunc, stream, gate_wait, &gate);
	OK(cuMemsetD32Async, at, 2, 1024, stream);
	OK(cuMemcpyDtoHAsync_v2, host, at, 4096, stream);
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery, stream);
	gate_open(&gate);
	OK(cuStreamSynchronize, stream);
	cr_assert_eq(((uint32_t *)host)[1023], 2);
}

Test(stream, does_not_wait_for_another)
{
	CUstream stuck, other;
	struct gate gate;

	conform_context();
	gate_init(&gate);
	stuck = stream_new(CU_STREAM_NON_BLOCKING);
	other = stream_new(CU_STREAM_NON_BLOCKING);
	OK(cuLaunchHostFunc, stuck, gate_wait, &gate);
	OK(cuStreamSynchronize, other);
	OK(cuStreamQuery, other);
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery, stuck);
	gate_open(&gate);
	OK(cuCtxSynchronize);
	OK(cuStreamQuery, stuck);
}

Test(stream, legacy_one_waits_for_blocking_streams)
{
	struct gate gate;
	CUstream stream;
	CUdeviceptr at;

	conform_context();
	gate_init(&gate);
	OK(cuMemAlloc_v2, &at, 4096);
	stream = stream_new(CU_STREAM_DEFAULT);
	OK(cuLaunchHostFunc, stream, gate_wait, &gate);
	OK(cuMemsetD8Async, at, 1, 4096, NULL);
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery, NULL);
	gate_open(&gate);
	OK(cuStreamSynchronize, NULL);
	OK(cuStreamQuery, stream);
}

Test(stream, blocking_one_waits_for_the_legacy_stream)
{
	struct gate gate;
	CUstream stream;
	CUdeviceptr at;

	conform_context();
	gate_init(&gate);
	OK(cuMemAlloc_v2, &at, 4096);
	stream = stream_new(CU_STREAM_DEFAULT);
	OK(cuLaunchHostFunc, NULL, gate_wait, &gate);
	OK(cuMemsetD8Async, at, 1, 4096, stream);
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery, stream);
	gate_open(&gate);
	OK(cuStreamSynchronize, stream);
	OK(cuStreamQuery, NULL);
}

Test(stream, non_blocking_one_ignores_the_legacy_stream)
{
	struct gate gate;
	CUstream stream;
	CUdeviceptr at;

	conform_context();
	gate_init(&gate);
	OK(cuMemAlloc_v2, &at, 4096);
	stream = stream_new(CU_STREAM_NON_BLOCKING);
	OK(cuLaunchHostFunc, NULL, gate_wait, &gate);
	OK(cuMemsetD8Async, at, 1, 4096, stream);
	OK(cuStreamSynchronize, stream);
	gate_open(&gate);
	OK(cuCtxSynchronize);
}

Test(stream, destroyed_one_finishes_its_work)
{
	atomic_int counter = 0;
	struct note note = { &counter, 0 };
	struct gate gate;
	CUstream stream;

	conform_context();
	gate_init(&gate);
	stream = stream_new(CU_STREAM_NON_BLOCKING);
	OK(cuLaunchHostFunc, stream, gate_wait, &gate);
	OK(cuLaunchHostFunc, stream, take_note, &note);
	gate_open(&gate);
	OK(cuStreamDestroy_v2, stream);
	OK(cuCtxSynchronize);
	cr_assert_eq(counter, 1);
}

Test(stream, priority_is_cut_to_the_range)
{
	int least, greatest, priority;
	CUstream stream;

	conform_context();
	OK(cuCtxGetStreamPriorityRange, &least, &greatest);
	cr_assert_geq(least, greatest);
	OK(cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, greatest);
	OK(cuStreamGetPriority, stream, &priority);
	cr_assert_eq(priority, greatest);
	OK(cuStreamDestroy_v2, stream);
	OK(cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, greatest - 100);
	OK(cuStreamGetPriority, stream, &priority);
	cr_assert_eq(priority, greatest);
	OK(cuStreamGetPriority, stream_new(0), &priority);
	cr_assert_eq(priority, 0);
}

Test(stream, unknown_flags_are_refused)
{
	CUstream stream;

	conform_context();
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamCreate, &stream, 0x80);
}

Test(event, never_recorded_is_complete)
{
	CUstream stream;
	CUevent event;

	conform_context();
	event = event_new(CU_EVENT_DISABLE_TIMING);
	stream = stream_new(CU_STREAM_NON_BLOCKING);
	OK(cuEventQuery, event);
	OK(cuEventSynchronize, event);
	OK(cuStreamWaitEvent, stream, event, 0);
	OK(cuStreamSynchronize, stream);
	OK(cuEventDestroy_v2, event);
}

Test(event, is_complete_when_what_is_before_it_is_done)
{
	struct gate before, after;
	CUstream stream;
	CUevent event;

	conform_context();
	gate_init(&before);
	gate_init(&after);
	event = event_new(CU_EVENT_DISABLE_TIMING);
	stream = stream_new(CU_STREAM_NON_BLOCKING);
	OK(cuLaunchHostFunc, stream, gate_wait, &before);
	OK(cuEventRecord, event, stream);
	OK(cuLaunchHostFunc, stream, gate_wait, &after);
	FAILS(CUDA_ERROR_NOT_READY, cuEventQuery, event);
	gate_open(&before);
	OK(cuEventSynchronize, event);
	OK(cuEventQuery, event);
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery, stream);
	gate_open(&after);
	OK(cuStreamSynchronize, stream);
}

Test(event, orders_two_streams)
{
	CUstream first, second;
	struct gate gate;
	CUdeviceptr at;
	CUevent event;

	conform_context();
	gate_init(&gate);
	OK(cuMemAlloc_v2, &at, 4096);
	event = event_new(CU_EVENT_DISABLE_TIMING);
	first = stream_new(CU_STREAM_NON_BLOCKING);
	second = stream_new(CU_STREAM_NON_BLOCKING);
	OK(cuLaunchHostFunc, first, gate_wait, &gate);
	OK(cuMemsetD32Async, at, 1, 1024, first);
	OK(cuEventRecord, event, first);
	OK(cuStreamWaitEvent, second, event, 0);
	OK(cuMemsetD32Async, at, 2, 512, second);
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery, second);
	gate_open(&gate);
	OK(cuStreamSynchronize, second);
	cr_assert(words_match(at, 2, 1));
	cr_assert(words_match(at + 2048, 1, 1));
}

Test(event, wait_means_the_record_before_it)
{
	CUstream first, second;
	struct gate gate;
	CUevent event;

	conform_context();
	gate_init(&gate);
	event = event_new(CU_EVENT_DISABLE_TIMING);
	first = stream_new(CU_STREAM_NON_BLOCKING);
	second = stream_new(CU_STREAM_NON_BLOCKING);
	OK(cuEventRecord, event, first);
	OK(cuStreamWaitEvent, second, event, 0);
	OK(cuLaunchHostFunc, first, gate_wait, &gate);
	OK(cuEventRecord, event, first);
	OK(cuStreamSynchronize, second);
	FAILS(CUDA_ERROR_NOT_READY, cuEventQuery, event);
	gate_open(&gate);
	OK(cuEventSynchronize, event);
}

Test(event, may_be_destroyed_before_it_completes)
{
	CUstream first, second;
	struct gate gate;
	CUevent event;

	conform_context();
	gate_init(&gate);
	event = event_new(CU_EVENT_DISABLE_TIMING);
	first = stream_new(CU_STREAM_NON_BLOCKING);
	second = stream_new(CU_STREAM_NON_BLOCKING);
	OK(cuLaunchHostFunc, first, gate_wait, &gate);
	OK(cuEventRecord, event, first);
	OK(cuStreamWaitEvent, second, event, 0);
	OK(cuEventDestroy_v2, event);
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery, second);
	gate_open(&gate);
	OK(cuStreamSynchronize, second);
}

Test(event, tells_the_time_between_two)
{
	CUevent start, end;
	CUstream stream;
	CUdeviceptr at;
	float ms = -1;

	conform_context();
	OK(cuMemAlloc_v2, &at, 16 * MIB);
	start = event_new(CU_EVENT_DEFAULT);
	end = event_new(CU_EVENT_DEFAULT);
	stream = stream_new(CU_STREAM_NON_BLOCKING);
	OK(cuEventRecord, start, stream);
	OK(cuMemsetD8Async, at, 1, 16 * MIB, stream);
	OK(cuEventRecord, end, stream);
	OK(cuEventSynchronize, end);
	OK(cuEventElapsedTime, &ms, start, end);
	cr_assert(ms > 0 && ms < 10000, "%f ms", (double)ms);
}

Test(event, has_no_time_unless_recorded_with_timing)
{
	CUevent timed, recorded, untimed;
	float ms;

	conform_context();
	timed = event_new(CU_EVENT_DEFAULT);
	recorded = event_new(CU_EVENT_DEFAULT);
	untimed = event_new(CU_EVENT_DISABLE_TIMING);
	OK(cuEventRecord, recorded, NULL);
	OK(cuEventRecord, untimed, NULL);
	OK(cuCtxSynchronize);
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime, &ms, timed, recorded);
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime, &ms, untimed, recorded);
}

Test(event, time_is_not_ready_before_the_end)
{
	CUevent start, end;
	struct gate gate;
	CUstream stream;
	float ms;

	conform_context();
	gate_init(&gate);
	start = event_new(CU_EVENT_DEFAULT);
	end = event_new(CU_EVENT_DEFAULT);
	stream = stream_new(CU_STREAM_NON_BLOCKING);
	OK(cuEventRecord, start, stream);
	OK(cuLaunchHostFunc, stream, gate_wait, &gate);
	OK(cuEventRecord, end, stream);
	FAILS(CUDA_ERROR_NOT_READY, cuEventElapsedTime, &ms, start, end);
	gate_open(&gate);
	OK(cuEventSynchronize, end);
	OK(cuEventElapsedTime, &ms, start, end);
}

struct user {
	pthread_t thread;
	CUcontext context;
	uint32_t first;
};

/* Allocates, fills, copies and compares in a loop, on a separate stream. */
static void *user_run(void *arg)
{
	const size_t n = 65536;
	struct user *user = arg;
	CUdeviceptr from, to;
	CUstream stream;

	OK(cuCtxSetCurrent, user->context);
	stream = stream_new(CU_STREAM_NON_BLOCKING);
	for (uint32_t i = 0; i < 20; i++) {
		OK(cuMemAlloc_v2, &from, n * 4);
		OK(cuMemAllocAsync, &to, n * 4, stream);
		words_write(from, user->first + i, n);
		/* A copy from pageable memory may still be under way. */
		OK(cuStreamSynchronize, NULL);
		OK(cuMemcpyDtoDAsync_v2, to, from, n * 4, stream);
		OK(cuStreamSynchronize, stream);
		MUST(words_match(to, user->first + i, n));
		OK(cuMemFreeAsync, to, stream);
		OK(cuMemFree_v2, from);
	}
	OK(cuStreamDestroy_v2, stream);
	return NULL;
}

Test(stream, many_threads_use_one_context_at_once)
{
	CUcontext context = conform_context();
	struct user users[4];

	for (uint32_t i = 0; i < ARRAY_SIZE(users); i++) {
		users[i] = (struct user){ .context = context, .first = i << 20 };
		MUST(pthread_create(&users[i].thread, NULL, user_run, &users[i]) == 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(users); i++)
		pthread_join(users[i].thread, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * The way into the library, the same for every call: the lock of the library, whether the
 * driver is initialised, the faults that a test has asked for, and the fault that has
 * happened.
 *
 * A sticky result poisons the process: from then on every call that needs the driver
 * answers with this result, for good, whatever is reset. Hardware does the same, and so a
 * process is the fault boundary of the whole project.
 *
 * A child of fork() has no stream threads and may find any state half changed: as with
 * NVIDIA's driver, the calls of a child answer CUDA_ERROR_NOT_INITIALIZED.
 */
#include "call.h"

#include "base/clock.h"
#include "context.h"

#include <time.h>

/* Between two looks at whether a delay is still wanted. */
#define SLEEP_SLICE_NS 20000000u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static CUresult poison;	 /* written under lock */
static bool initialized; /* under lock */
static bool forked;
static _Thread_local struct delay delay;

void call_lock(void)
{
	pthread_mutex_lock(&lock);
}

void call_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void call_wait(pthread_cond_t *cond)
{
	pthread_cond_wait(cond, &lock);
}

static void fork_child(void)
{
	pthread_mutex_init(&lock, NULL);
	forked = initialized;
}

static void fork_watch(void)
{
	pthread_atfork(NULL, NULL, fork_child);
}

static uint64_t changes(void)
{
	uint64_t n;

	call_lock();
	n = inject_changes();
	call_unlock();
	return n;
}

/* By the clock: on a busy machine each slice ends late. */
void call_sleep(struct delay asked)
{
	const uint64_t end = clock_ns(CLOCK_MONOTONIC) + asked.ns;

	for (uint64_t now; (now = clock_ns(CLOCK_MONOTONIC)) < end;) {
		const struct timespec slice = {
			.tv_nsec = (long)MIN(end - now, SLEEP_SLICE_NS),
		};

		nanosleep(&slice, NULL);
		if (changes() != asked.n_changes)
			break;
	}
}

struct delay call_take_delay(void)
{
	struct delay taken = delay;

	delay.ns = 0;
	return taken;
}

void call_poison(CUresult result)
{
	if (!poison)
		__atomic_store_n(&poison, result, __ATOMIC_RELAXED);
}

CUresult call_poisoned(void)
{
	return poison;
}

bool call_poisoned_now(void)
{
	return __atomic_load_n(&poison, __ATOMIC_RELAXED) != CUDA_SUCCESS;
}

void call_set_initialized(void)
{
	initialized = true;
}

bool call_is_initialized(void)
{
	return initialized;
}

CUresult call_inject(int call)
{
	return inject_result(call, &delay);
}

static CUresult call_check(int call, enum call_need need)
{
	CUresult result;

	if (forked)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!initialized)
		return need == NEED_NOTHING ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
	if (poison && need != NEED_NOTHING)
		return poison;

	result = call_inject(call);
	if (cuda_result_is_sticky(result))
		call_poison(result);
	if (result)
		return result;
	return need == NEED_CONTEXT ? context_check() : CUDA_SUCCESS;
}

CUresult call_enter(int call, enum call_need need)
{
	pthread_once(&fork_once, fork_watch);
	delay.ns = 0;
	call_lock();
	return call_check(call, need);
}

CUresult call_leave(CUresult result)
{
	struct delay taken;

	call_unlock();
	taken = call_take_delay();
	if (taken.ns)
		call_sleep(taken);
	return result;
}

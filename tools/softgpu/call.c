/* SPDX-License-Identifier: MIT */
/*
 * The way into the library, the same for every call: the one lock, whether the driver is
 * initialised, the faults that a test has asked for, and the fault that has happened.
 *
 * A sticky result poisons the process: from then on every call that needs the driver
 * answers it, for good, whatever is reset. That is what hardware does, and why a
 * process is the fault boundary of the whole project.
 *
 * A child of fork() has no stream threads and may find any state half changed: as with
 * NVIDIA's driver, its calls answer CUDA_ERROR_NOT_INITIALIZED.
 */
#include "call.h"

#include "context.h"
#include "inject.h"

#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static CUresult poison;	 /* written under lock */
static bool initialized; /* under lock */
static bool forked;
static _Thread_local uint64_t delay_ns;

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

void call_sleep(uint64_t ns)
{
	struct timespec left = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };

	while (nanosleep(&left, &left) < 0)
		continue;
}

uint64_t call_take_delay(void)
{
	uint64_t taken = delay_ns;

	delay_ns = 0;
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

static CUresult call_check(int call, enum call_need need)
{
	CUresult result;

	if (forked)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (need == NEED_NOTHING)
		return CUDA_SUCCESS;
	if (!initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (poison)
		return poison;

	result = inject_result(call, &delay_ns);
	if (cuda_result_is_sticky(result))
		call_poison(result);
	if (result)
		return result;
	return need == NEED_CONTEXT ? context_check() : CUDA_SUCCESS;
}

CUresult call_enter(int call, enum call_need need)
{
	pthread_once(&fork_once, fork_watch);
	delay_ns = 0;
	call_lock();
	return call_check(call, need);
}

CUresult call_leave(CUresult result)
{
	uint64_t ns;

	call_unlock();
	ns = call_take_delay();
	if (ns)
		call_sleep(ns);
	return result;
}

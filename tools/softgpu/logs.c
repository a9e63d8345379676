/* SPDX-License-Identifier: MIT */
/*
 * The driver's log: messages for people, given to the callbacks that a program has
 * registered. The software GPU has one kind of message, which says what a kernel's fault
 * was. A callback runs on the thread that found the fault, without any lock, and before
 * any call answers with the fault.
 */
#include "logs.h"

#include "call.h"

#include <string.h>

#define CALLBACKS_MAX 16

struct CUlogsCallbackEntry_st {
	CUlogsCallback run;
	void *data;
};

static struct CUlogsCallbackEntry_st callbacks[CALLBACKS_MAX]; /* library's lock */
static size_t n_callbacks;

void logs_add(const char *text, size_t length)
{
	struct CUlogsCallbackEntry_st now[CALLBACKS_MAX];
	char *message = strndup(text, length);
	size_t n;

	call_lock();
	n = n_callbacks;
	memcpy(now, callbacks, n * sizeof(*now));
	call_unlock();
	for (size_t i = 0; i < n && message; i++)
		now[i].run(now[i].data, CU_LOG_LEVEL_ERROR, message, strlen(message));
	free(message);
}

CALL(cuLogsRegisterCallback, NEED_NOTHING,
     (CUlogsCallback run, void *data, CUlogsCallbackHandle *ret), (run, data, ret))
{
	if (!run || n_callbacks == CALLBACKS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	callbacks[n_callbacks] = (struct CUlogsCallbackEntry_st){ run, data };
	if (ret)
		*ret = &callbacks[n_callbacks];
	n_callbacks++;
	return CUDA_SUCCESS;
}

/* SPDX-License-Identifier: MIT */
#include "worker/driver_log.h"

#include <pthread.h>
#include <string.h>

#include "base/def.h"
#include "worker/worker.h"

static struct {
	pthread_mutex_t lock; /* a leaf */
	size_t length;
	char text[WIRE_TEXT_MAX]; /* a message a line */
} messages = { .lock = PTHREAD_MUTEX_INITIALIZER };

/*
 * Called by the driver, on any thread. A message that only says which call returned which
 * error repeats the answer.
 */
static void driver_log_add(void *data, CUlogLevel level, char *message, size_t length)
{
	(void)data;
	length = strnlen(message, length);
	if (level != CU_LOG_LEVEL_ERROR || memmem(message, length, "CUDA_ERROR_", 11))
		return;
	pthread_mutex_lock(&messages.lock);
	length = MIN(length, sizeof(messages.text) - messages.length);
	memcpy(messages.text + messages.length, message, length);
	messages.length += length;
	if (messages.length < sizeof(messages.text))
		messages.text[messages.length++] = '\n';
	pthread_mutex_unlock(&messages.lock);
}

void driver_log_start(struct worker *worker)
{
	CUlogsCallbackHandle handle;

	(void)CUDA(worker->driver, NULL, cuLogsRegisterCallback, driver_log_add, NULL,
		   &handle);
}

void driver_log_forget(void)
{
	pthread_mutex_lock(&messages.lock);
	messages.length = 0;
	pthread_mutex_unlock(&messages.lock);
}

size_t driver_log_copy(char text[WIRE_TEXT_MAX])
{
	size_t length;

	pthread_mutex_lock(&messages.lock);
	length = messages.length;
	memcpy(text, messages.text, length);
	pthread_mutex_unlock(&messages.lock);
	return length;
}

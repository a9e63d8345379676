/* SPDX-License-Identifier: MIT */
#include "mapping.h"

#include "backing.h"
#include "base/def.h"
#include "kernel.h"
#include "view.h"

#include <errno.h>
#include <sys/mman.h>

void mappings_init(struct mappings *mappings)
{
	*mappings = (struct mappings){ .lock = PTHREAD_MUTEX_INITIALIZER };
}

void mappings_deinit(struct mappings *mappings)
{
	pthread_mutex_destroy(&mappings->lock);
}

/*
 * The kernel counts its numbers up, and a broker notes each number before it asks for the
 * next one. So numbers that were not noted in time are between the last that was noted
 * and a new one. A mount may have had millions of numbers before.
 */
void mappings_resume(struct broker *broker)
{
	_cleanup_close_ int fd = memfd_create("gpumem-number", MFD_CLOEXEC);
	int next = fd < 0 ? -errno : backing_open(fd);

	/* The kernel lets this broker map nothing. */
	if (next <= 0)
		return;
	for (uint32_t i = broker_last_backing(broker) + 1; i < (uint32_t)next; i++)
		backing_close(i);
	backing_close((uint32_t)next);
}

/* Answers of a kernel that never lets this process map a file: a right, a call, a limit.
 */
static bool is_final(int error)
{
	static const int final[] = { EPERM, ENOSYS, ENOTTY, EOPNOTSUPP, EINVAL, ELOOP };

	for (size_t i = 0; i < ARRAY_SIZE(final); i++) {
		if (final[i] == error)
			return true;
	}
	return false;
}

/* Short calls, under the lock. Returns: as mapping_get(). */
static int number_new(struct view *view, struct token token, int fd)
{
	int number, error;

	if (fd < 0)
		return 0;
	number = backing_open(fd);
	if (number < 0) {
		view->mappings.refused = is_final(-number);
		return view->mappings.refused ? 0 : number;
	}
	error = broker_note_backing(view->broker, token, (uint32_t)number);
	if (error)
		backing_close((uint32_t)number);
	return error ? error : number;
}

int mapping_get(struct view *view, struct token token)
{
	struct mappings *mappings = &view->mappings;
	/* A close looks at all locks (fcntl(2)) on the file: the lock is given back
	 * before. */
	_cleanup_close_ int fd = -1;
	int number;

	if (!kernel_can_map())
		return 0;
	pthread_mutex_lock(&mappings->lock);
	number = (int)broker_backing(view->broker, token);
	if (!number && !mappings->refused) {
		fd = broker_host_fd(view->broker, token);
		number = number_new(view, token, fd);
	}
	pthread_mutex_unlock(&mappings->lock);
	return number;
}

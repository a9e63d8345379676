/* SPDX-License-Identifier: MIT */
/* The linker puts this in the place of pthread_mutex_unlock(). */
#include "api/watch.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "model/registry.h"
#include "model/save.h"

int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

static struct registry *watched; /* atomic */

bool records_are_watched(void)
{
	return true;
}

void watch_records(struct registry *registry)
{
	__atomic_store_n(&watched, registry, __ATOMIC_RELEASE);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	struct registry *registry = __atomic_load_n(&watched, __ATOMIC_ACQUIRE);
	_cleanup_text_ struct text why = TEXT_INIT;

	if (registry && mutex == &registry->lock && registry_compare(registry, &why) < 0) {
		fprintf(stderr, "gpumemd: not saved for the next broker: %s\n",
			text_string(&why));
		abort();
	}
	return __real_pthread_mutex_unlock(mutex);
}

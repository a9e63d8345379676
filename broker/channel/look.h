/* SPDX-License-Identifier: MIT */
/*
 * A thread of the view that has asked a worker looks for the answer itself for a while
 * (base/look.h), instead of a receiver that would have to wake. The thread takes any
 * reply of that worker and calls back, as a receiver does.
 */
#pragma once

#include <stdbool.h>

/* Between these calls the thread may look. */
void broker_look_begin(void);
void broker_look_end(void);

/*
 * Looks until `over`, for a bounded time. Not at all when this thread has asked nobody
 * since broker_look_begin(), or when looking is not worth while. No lock is held.
 */
void broker_look(bool (*over)(void *userdata), void *userdata);

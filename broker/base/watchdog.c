/* SPDX-License-Identifier: MIT */
#include "base/watchdog.h"

#include <errno.h>
#include <stdint.h>
#include <sys/timerfd.h>
#include <unistd.h>

static void timer_set(const struct watchdog *watchdog, long ns)
{
	const struct itimerspec time = { .it_value.tv_nsec = ns };

	timerfd_settime(watchdog->timer, 0, &time, NULL);
}

void watchdog_wake(struct watchdog *watchdog)
{
	if (!__atomic_load_n(&watchdog->ticking, __ATOMIC_ACQUIRE) &&
	    !__atomic_exchange_n(&watchdog->ticking, 1, __ATOMIC_ACQ_REL))
		timer_set(watchdog, WATCHDOG_MS * 1000000L);
}

/* The note is taken back before the look: who comes after the look sets the timer. */
static void *watch(void *userdata)
{
	struct watchdog *watchdog = userdata;
	uint64_t n;

	for (;;) {
		ssize_t length = read(watchdog->timer, &n, sizeof(n));

		if (__atomic_load_n(&watchdog->ending, __ATOMIC_ACQUIRE))
			return NULL;
		if (length != sizeof(n))
			continue;
		__atomic_store_n(&watchdog->ticking, 0, __ATOMIC_RELEASE);
		if (watchdog->look(watchdog->userdata))
			watchdog_wake(watchdog);
	}
}

int watchdog_init(struct watchdog *watchdog, bool (*look)(void *userdata), void *userdata)
{
	int error;

	*watchdog = (struct watchdog){ .look = look, .userdata = userdata };
	watchdog->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	if (watchdog->timer < 0)
		return -errno;
	error = pthread_create(&watchdog->thread, NULL, watch, watchdog);
	if (error)
		close(watchdog->timer);
	return -error;
}

void watchdog_deinit(struct watchdog *watchdog)
{
	/* Others may wake the watchdog meanwhile: the timer is only brought forward. */
	__atomic_store_n(&watchdog->ending, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&watchdog->ticking, 1, __ATOMIC_RELEASE);
	timer_set(watchdog, 1);
	pthread_join(watchdog->thread, NULL);
	close(watchdog->timer);
}

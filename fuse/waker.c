/* SPDX-License-Identifier: MIT */
#include "waker.h"

#include "base/def.h"

void waker_init(struct waker *waker, struct wakers *wakers, uid_t opener,
		void (*serve)(struct waker *waker))
{
	*waker = (struct waker){ .wakers = wakers, .opener = opener, .serve = serve };
}

void waker_wake(void *userdata)
{
	struct waker *waker = userdata;
	struct wakers *wakers = waker->wakers;

	pthread_mutex_lock(&wakers->lock);
	if (!waker->woken && !waker->closing) {
		waker->woken = true;
		turns_add(&wakers->woken, waker->opener, &waker->turn);
		pthread_cond_broadcast(&wakers->changed);
	}
	pthread_mutex_unlock(&wakers->lock);
}

static void *run(void *data)
{
	struct wakers *wakers = data;
	struct waker *waker;
	struct turn *turn;

	pthread_mutex_lock(&wakers->lock);
	while (!wakers->ending) {
		turn = turns_take(&wakers->woken, NULL, NULL);
		if (!turn) {
			pthread_cond_wait(&wakers->changed, &wakers->lock);
			continue;
		}
		waker = container_of(turn, struct waker, turn);
		wakers->served = waker;
		waker->woken = false;
		pthread_mutex_unlock(&wakers->lock);
		waker->serve(waker);
		pthread_mutex_lock(&wakers->lock);
		wakers->served = NULL;
		pthread_cond_broadcast(&wakers->changed);
	}
	pthread_mutex_unlock(&wakers->lock);
	return NULL;
}

void waker_leave(struct waker *waker)
{
	struct wakers *wakers = waker->wakers;

	pthread_mutex_lock(&wakers->lock);
	waker->closing = true;
	if (waker->woken)
		turns_remove(&wakers->woken, &waker->turn);
	while (wakers->served == waker)
		pthread_cond_wait(&wakers->changed, &wakers->lock);
	pthread_mutex_unlock(&wakers->lock);
}

int wakers_init(struct wakers *wakers)
{
	*wakers = (struct wakers){
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.changed = PTHREAD_COND_INITIALIZER,
	};
	return -pthread_create(&wakers->thread, NULL, run, wakers);
}

void wakers_deinit(struct wakers *wakers)
{
	pthread_mutex_lock(&wakers->lock);
	wakers->ending = true;
	pthread_cond_broadcast(&wakers->changed);
	pthread_mutex_unlock(&wakers->lock);
	pthread_join(wakers->thread, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "base/workqueue.h"

#include <errno.h>

static void *crew_main(void *userdata)
{
	struct crew *crew = userdata;
	struct task *task;

	pthread_mutex_lock(&crew->lock);
	for (;;) {
		while (!crew->first && !crew->stop)
			pthread_cond_wait(&crew->wake, &crew->lock);
		task = crew->first;
		if (!task)
			break;
		crew->first = task->next;
		if (!crew->first)
			crew->last = &crew->first;
		pthread_mutex_unlock(&crew->lock);
		task->run(task);
		pthread_mutex_lock(&crew->lock);
	}
	pthread_mutex_unlock(&crew->lock);
	return NULL;
}

int crew_init(struct crew *crew)
{
	*crew = (struct crew){ 0 };
	crew->last = &crew->first;
	pthread_mutex_init(&crew->lock, NULL);
	pthread_cond_init(&crew->wake, NULL);
	for (; crew->n_threads < CREW_THREADS; crew->n_threads++) {
		if (pthread_create(&crew->threads[crew->n_threads], NULL, crew_main,
				   crew)) {
			crew_deinit(crew);
			return -EAGAIN;
		}
	}
	return 0;
}

void crew_deinit(struct crew *crew)
{
	pthread_mutex_lock(&crew->lock);
	crew->stop = true;
	pthread_cond_broadcast(&crew->wake);
	pthread_mutex_unlock(&crew->lock);
	while (crew->n_threads > 0)
		pthread_join(crew->threads[--crew->n_threads], NULL);
	pthread_cond_destroy(&crew->wake);
	pthread_mutex_destroy(&crew->lock);
}

void crew_add(struct crew *crew, struct task *task)
{
	task->next = NULL;
	pthread_mutex_lock(&crew->lock);
	*crew->last = task;
	crew->last = &task->next;
	pthread_cond_signal(&crew->wake);
	pthread_mutex_unlock(&crew->lock);
}

/* SPDX-License-Identifier: MIT */
#include "base/workqueue.h"

#include <errno.h>
#include <utlist.h>

/*
 * Finds a free place for a task; NULL when there is none, or the task's owner has its
 * share of threads.
 */
static const struct task **crew_find_place(struct crew *crew, uint64_t whose)
{
	const struct task **place = NULL;
	unsigned int n = 0;

	for (unsigned int i = 0; i < CREW_THREADS; i++) {
		if (!crew->running[i])
			place = &crew->running[i];
		else
			n += crew->running[i]->whose == whose;
	}
	return n < CREW_SHARE ? place : NULL;
}

/* Takes the next task. Later tasks of the same owner go to the end of the turn. */
static struct task *crew_take(struct crew *crew, const struct task ***ret_place)
{
	struct task *task, *behind;

	DL_FOREACH (crew->firsts, task) {
		*ret_place = crew_find_place(crew, task->whose);
		if (*ret_place)
			break;
	}
	if (!task)
		return NULL;
	DL_DELETE(crew->firsts, task);
	behind = task->behind;
	if (behind) {
		behind->last_behind = task->last_behind;
		DL_APPEND(crew->firsts, behind);
	}
	return task;
}

/* The place holds a copy of the owner, because the task frees itself. */
static void crew_run(struct crew *crew, struct task *task, const struct task **place)
{
	const struct task note = { .whose = task->whose };

	*place = &note;
	pthread_mutex_unlock(&crew->lock);
	task->run(task);
	pthread_mutex_lock(&crew->lock);
	*place = NULL;
	/* Wakes threads that wait for this share or for the end. */
	pthread_cond_broadcast(&crew->wake);
}

static void *crew_main(void *userdata)
{
	struct crew *crew = userdata;
	const struct task **place;
	struct task *task;

	pthread_mutex_lock(&crew->lock);
	for (;;) {
		task = crew_take(crew, &place);
		if (task)
			crew_run(crew, task, place);
		else if (crew->stop && !crew->firsts)
			break;
		else
			pthread_cond_wait(&crew->wake, &crew->lock);
	}
	pthread_mutex_unlock(&crew->lock);
	return NULL;
}

int crew_init(struct crew *crew)
{
	*crew = (struct crew){ 0 };
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

void crew_add(struct crew *crew, uint64_t whose, struct task *task)
{
	struct task *first;

	task->whose = whose;
	task->behind = NULL;
	task->last_behind = task;
	pthread_mutex_lock(&crew->lock);
	DL_FOREACH (crew->firsts, first) {
		if (first->whose == whose)
			break;
	}
	if (first) {
		first->last_behind->behind = task;
		first->last_behind = task;
	} else {
		DL_APPEND(crew->firsts, task);
	}
	pthread_cond_signal(&crew->wake);
	pthread_mutex_unlock(&crew->lock);
}

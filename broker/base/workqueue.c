/* SPDX-License-Identifier: MIT */
#include "base/workqueue.h"

#include <errno.h>
#include <utlist.h>

/*
 * Finds a free place for a task; NULL when there is none, or the task's owner has its
 * share of threads.
 */
static const struct task **workqueue_find_place(struct workqueue *workqueue,
						uint64_t whose)
{
	const struct task **place = NULL;
	unsigned int n = 0;

	for (unsigned int i = 0; i < WORKQUEUE_THREADS; i++) {
		if (!workqueue->running[i])
			place = &workqueue->running[i];
		else
			n += workqueue->running[i]->whose == whose;
	}
	return n < WORKQUEUE_SHARE ? place : NULL;
}

/* Takes the next task. Later tasks of the same owner go to the end of the turn. */
static struct task *workqueue_take(struct workqueue *workqueue,
				   const struct task ***ret_place)
{
	struct task *task, *behind;

	DL_FOREACH (workqueue->firsts, task) {
		*ret_place = workqueue_find_place(workqueue, task->whose);
		if (*ret_place)
			break;
	}
	if (!task)
		return NULL;
	DL_DELETE(workqueue->firsts, task);
	behind = task->behind;
	if (behind) {
		behind->last_behind = task->last_behind;
		DL_APPEND(workqueue->firsts, behind);
	}
	return task;
}

/* The place holds a copy of the owner, because the task frees itself. */
static void workqueue_run(struct workqueue *workqueue, struct task *task,
			  const struct task **place)
{
	const struct task note = { .whose = task->whose };

	*place = &note;
	pthread_mutex_unlock(&workqueue->lock);
	task->run(task);
	pthread_mutex_lock(&workqueue->lock);
	*place = NULL;
	/* Wakes threads that wait for this share or for the end. */
	pthread_cond_broadcast(&workqueue->wake);
}

static void *workqueue_main(void *userdata)
{
	struct workqueue *workqueue = userdata;
	const struct task **place;
	struct task *task;

	pthread_mutex_lock(&workqueue->lock);
	for (;;) {
		task = workqueue_take(workqueue, &place);
		if (task)
			workqueue_run(workqueue, task, place);
		else if (workqueue->stop && !workqueue->firsts)
			break;
		else
			pthread_cond_wait(&workqueue->wake, &workqueue->lock);
	}
	pthread_mutex_unlock(&workqueue->lock);
	return NULL;
}

int workqueue_init(struct workqueue *workqueue)
{
	*workqueue = (struct workqueue){ 0 };
	pthread_mutex_init(&workqueue->lock, NULL);
	pthread_cond_init(&workqueue->wake, NULL);
	for (; workqueue->n_threads < WORKQUEUE_THREADS; workqueue->n_threads++) {
		if (pthread_create(&workqueue->threads[workqueue->n_threads], NULL,
				   workqueue_main, workqueue)) {
			workqueue_deinit(workqueue);
			return -EAGAIN;
		}
	}
	return 0;
}

void workqueue_deinit(struct workqueue *workqueue)
{
	pthread_mutex_lock(&workqueue->lock);
	workqueue->stop = true;
	pthread_cond_broadcast(&workqueue->wake);
	pthread_mutex_unlock(&workqueue->lock);
	while (workqueue->n_threads > 0)
		pthread_join(workqueue->threads[--workqueue->n_threads], NULL);
	pthread_cond_destroy(&workqueue->wake);
	pthread_mutex_destroy(&workqueue->lock);
}

void workqueue_add(struct workqueue *workqueue, uint64_t whose, struct task *task)
{
	struct task *first;

	task->whose = whose;
	task->behind = NULL;
	task->last_behind = task;
	pthread_mutex_lock(&workqueue->lock);
	DL_FOREACH (workqueue->firsts, first) {
		if (first->whose == whose)
			break;
	}
	if (first) {
		first->last_behind->behind = task;
		first->last_behind = task;
	} else {
		DL_APPEND(workqueue->firsts, task);
	}
	pthread_cond_signal(&workqueue->wake);
	pthread_mutex_unlock(&workqueue->lock);
}

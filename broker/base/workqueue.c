/* SPDX-License-Identifier: MIT */
#include "base/workqueue.h"

#include <errno.h>

/* The place of a thread that runs nothing; NULL: there is none for such a task. */
static const struct task **workqueue_find_place(struct workqueue *workqueue, bool is_long)
{
	const struct task **place = NULL;
	unsigned int n_long = 0;

	for (unsigned int i = 0; i < WORKQUEUE_THREADS; i++) {
		if (!workqueue->running[i])
			place = &workqueue->running[i];
		else
			n_long += workqueue->running[i]->is_long;
	}
	return is_long && n_long >= WORKQUEUE_LONG ? NULL : place;
}

/* Whether the owner has threads left of the share. */
static bool workqueue_may_run(void *userdata, uint64_t whose)
{
	const struct workqueue *workqueue = userdata;
	unsigned int n = 0;

	for (unsigned int i = 0; i < WORKQUEUE_THREADS; i++)
		n += workqueue->running[i] && workqueue->running[i]->turn.whose == whose;
	return n < WORKQUEUE_SHARE;
}

static struct task *workqueue_take_of(struct workqueue *workqueue, bool is_long,
				      const struct task ***ret_place)
{
	struct turn *turn;

	*ret_place = workqueue_find_place(workqueue, is_long);
	if (!*ret_place)
		return NULL;
	turn = turns_take(&workqueue->waiting[is_long], workqueue_may_run, workqueue);
	return turn ? container_of(turn, struct task, turn) : NULL;
}

/* Short tasks and long ones alternate. */
static struct task *workqueue_take(struct workqueue *workqueue,
				   const struct task ***ret_place)
{
	bool is_long = workqueue->long_is_next;
	struct task *task = workqueue_take_of(workqueue, is_long, ret_place);

	if (!task)
		task = workqueue_take_of(workqueue, !is_long, ret_place);
	if (task)
		workqueue->long_is_next = !task->is_long;
	return task;
}

/* The place holds a copy, because the task frees itself. */
static void workqueue_run(struct workqueue *workqueue, struct task *task,
			  const struct task **place)
{
	const struct task note = {
		.is_long = task->is_long,
		.turn.whose = task->turn.whose,
	};

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
		else if (workqueue->stop && !workqueue->waiting[0].n &&
			 !workqueue->waiting[1].n)
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
	pthread_mutex_lock(&workqueue->lock);
	turns_add(&workqueue->waiting[task->is_long], whose, &task->turn);
	pthread_cond_signal(&workqueue->wake);
	pthread_mutex_unlock(&workqueue->lock);
}

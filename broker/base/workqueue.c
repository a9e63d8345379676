/* SPDX-License-Identifier: MIT */
#include "base/workqueue.h"

#include <errno.h>

#define LONG_BYTES ((uint64_t)64 << 20)
#define SLOW_BYTES ((uint64_t)512 << 20)

/* Threads for tasks of that length and longer ones. */
static const unsigned int threads_most[N_TASK_LENGTHS] = {
	[TASK_SHORT] = WORKQUEUE_THREADS_MOST,
	[TASK_LONG] = WORKQUEUE_LONG,
	[TASK_SLOW] = WORKQUEUE_SLOW,
};

enum task_length task_length_of_call(uint64_t bytes)
{
	return bytes > LONG_BYTES ? TASK_LONG : TASK_SHORT;
}

enum task_length task_length_of_filling(uint64_t bytes)
{
	return bytes > SLOW_BYTES ? TASK_SLOW : task_length_of_call(bytes);
}

/* Whether there is a thread left for such a task. */
static bool workqueue_has_thread(const struct workqueue *workqueue,
				 enum task_length length)
{
	unsigned int n[N_TASK_LENGTHS] = { 0 };

	for (unsigned int i = 0; i < workqueue->n_most; i++) {
		for (unsigned int j = 0; workqueue->running[i] && j < N_TASK_LENGTHS; j++)
			n[j] += workqueue->running[i]->length >= j;
	}
	for (unsigned int j = 0; j <= length; j++) {
		if (n[j] >= threads_most[j])
			return false;
	}
	return true;
}

/* The place of a thread that runs nothing. */
static const struct task **workqueue_find_place(struct workqueue *workqueue)
{
	unsigned int i = 0;

	while (workqueue->running[i])
		i++;
	return &workqueue->running[i];
}

/* The look of a thread for a task of this length. */
struct search {
	const struct workqueue *workqueue;
	enum task_length length;
};

/*
 * Whether the owner has threads left of the share, and no other slow task runs of the
 * owner's, releases and tries included.
 */
static bool workqueue_may_run(void *userdata, uint64_t whose)
{
	const struct search *search = userdata;
	const struct workqueue *workqueue = search->workqueue;
	unsigned int n = 0, n_slow = 0;

	for (unsigned int i = 0; i < workqueue->n_most; i++) {
		const struct task *task = workqueue->running[i];

		if (!task)
			continue;
		n += task->turn.whose == whose;
		n_slow += task->length == TASK_SLOW &&
			  (uint32_t)task->turn.whose == (uint32_t)whose;
	}
	return n < workqueue->share && !(search->length == TASK_SLOW && n_slow);
}

static struct task *workqueue_take_of(struct workqueue *workqueue,
				      enum task_length length)
{
	struct search search = { workqueue, length };
	struct turn *turn = NULL;

	if (workqueue_has_thread(workqueue, length))
		turn = turns_take(&workqueue->waiting[length], workqueue_may_run,
				  &search);
	return turn ? container_of(turn, struct task, turn) : NULL;
}

/* Tasks of all lengths take turns. */
static struct task *workqueue_take(struct workqueue *workqueue)
{
	struct task *task = NULL;
	unsigned int length;

	for (unsigned int i = 0; !task && i < N_TASK_LENGTHS; i++) {
		length = (workqueue->next + i) % N_TASK_LENGTHS;
		task = workqueue_take_of(workqueue, length);
	}
	if (task)
		workqueue->next = (length + 1) % N_TASK_LENGTHS;
	return task;
}

static bool workqueue_is_empty(const struct workqueue *workqueue)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < N_TASK_LENGTHS; i++)
		n += workqueue->waiting[i].n;
	return n == 0;
}

/* The place holds a copy, because the task frees itself. */
static void workqueue_run(struct workqueue *workqueue, struct task *task)
{
	const struct task **place = workqueue_find_place(workqueue);
	const struct task note = {
		.length = task->length,
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
	struct task *task;

	pthread_mutex_lock(&workqueue->lock);
	for (;;) {
		task = workqueue_take(workqueue);
		if (task)
			workqueue_run(workqueue, task);
		else if (workqueue->stop && workqueue_is_empty(workqueue))
			break;
		else
			pthread_cond_wait(&workqueue->wake, &workqueue->lock);
	}
	pthread_mutex_unlock(&workqueue->lock);
	return NULL;
}

int workqueue_init(struct workqueue *workqueue, unsigned int n_threads,
		   unsigned int share)
{
	*workqueue = (struct workqueue){ .n_most = n_threads, .share = share };
	pthread_mutex_init(&workqueue->lock, NULL);
	pthread_cond_init(&workqueue->wake, NULL);
	for (; workqueue->n_threads < n_threads; workqueue->n_threads++) {
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
	turns_add(&workqueue->waiting[task->length], whose, &task->turn);
	pthread_cond_signal(&workqueue->wake);
	pthread_mutex_unlock(&workqueue->lock);
}

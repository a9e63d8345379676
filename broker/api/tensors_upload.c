/* SPDX-License-Identifier: MIT */
/*
 * `tensors` of an allocation: checked when it has been written, in the work queue, since
 * 64 MiB of JSON take seconds.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "api/upload_class.h"
#include "base/refusal.h"
#include "base/workqueue.h"
#include "memops/tensors.h"
#include "model/allocation.h"
#include "model/journal.h"
#include "model/registry.h"
#include "model/tensors.h"
#include "process/broker.h"

/* Texts up to this are checked by the write itself, too. */
#define LOOK_MAX ((size_t)128 << 10)

struct tensors_store {
	struct task task;
	struct broker *broker;
	struct token token;
	struct caller caller;
	struct tensors *tensors; /* NULL: an empty text, which removes the old one */
	uint64_t allocation_size;
	char name[FULL_NAME_MAX + 1];
	struct completion *wait; /* registry.lock */
};

static void tensors_get(void *object, struct contents *ret_contents)
{
	const struct allocation *allocation = object;

	if (!allocation->tensors)
		return;
	ret_contents->object = tensors_ref(allocation->tensors);
	ret_contents->fd = allocation->tensors->fd;
	ret_contents->size = allocation->tensors->size;
}

static void tensors_put(struct broker *broker, const struct contents *contents)
{
	pthread_mutex_lock(&broker->registry->lock);
	tensors_unref(broker, contents->object);
	pthread_mutex_unlock(&broker->registry->lock);
}

/* ---- storing ---- */

/* The allocation, if it may be written. Under registry.lock. NULL: a refusal. */
static struct allocation *find(struct broker *broker, struct token token,
			       struct refusal *refusal)
{
	struct allocation *allocation =
		allocation_get(broker->registry, token.slot, token.generation);

	if (!allocation)
		refuse(refusal, ESTALE, "the allocation has been freed");
	else if (allocation->sealed)
		(void)refuse_sealed(refusal, allocation);
	return allocation && !allocation->sealed ? allocation : NULL;
}

/* Puts the tensors (NULL: none) in place of the old ones. Under registry.lock. */
static void replace(struct broker *broker, struct allocation *allocation,
		    const struct caller *by, struct tensors *tensors)
{
	tensors_set(broker, allocation, tensors);
	journal_event_by(broker->journal, by, "change allocations/%s tensors_bytes=%llu",
			 allocation_name(allocation).text,
			 tensors ? (unsigned long long)tensors->size : 0);
}

/* Answers and frees. No lock held. */
static void finish(struct tensors_store *store, struct completion *wait, int r,
		   const struct refusal *refusal)
{
	char file[FULL_NAME_MAX + 64];

	if (r < 0) {
		snprintf(file, sizeof(file), "allocations/%s/tensors", store->name);
		journal_fail(store->broker->journal, store->caller.uid, store->caller.pid,
			     file, refusal->error, refusal->sentence);
	}
	if (wait)
		wait->done(wait, r < 0 ? -refusal->error : 0, NULL, 0);
	free(store);
}

/* Returns: 0; -errno with a refusal. */
static int check_text(const struct tensors_store *store, struct refusal *refusal)
{
	const struct tensors *tensors = store->tensors;
	void *text = mmap(NULL, tensors->size, PROT_READ, MAP_SHARED, tensors->fd, 0);
	int r;

	if (text == MAP_FAILED)
		return refuse(refusal, ENOMEM, "no memory in the broker");
	r = tensors_check(text, tensors->size, store->allocation_size, refusal);
	munmap(text, tensors->size);
	return r;
}

static void store_run(struct task *task)
{
	struct tensors_store *store = container_of(task, struct tensors_store, task);
	struct registry *registry = store->broker->registry;
	struct allocation *allocation;
	struct completion *wait;
	struct refusal refusal;
	int r = check_text(store, &refusal);

	if (r == 0 && tensors_keep(store->broker, store->tensors) < 0)
		r = refuse(&refusal, ENOMEM, "no memory in the broker");
	pthread_mutex_lock(&registry->lock);
	allocation = r == 0 ? find(store->broker, store->token, &refusal) : NULL;
	if (allocation)
		replace(store->broker, allocation, &store->caller,
			take_ptr(store->tensors));
	else
		r = -refusal.error;
	tensors_unref(store->broker, store->tensors);
	wait = completion_take(&store->wait);
	registry_less_busy(registry);
	pthread_mutex_unlock(&registry->lock);
	finish(store, wait, r, &refusal);
}

static void tensors_store(struct broker *broker, struct token token,
			  const struct caller *caller, int taken_fd, uint64_t size,
			  struct completion *wait)
{
	struct tensors_store *store = calloc(1, sizeof(*store));
	struct allocation *allocation;
	struct refusal refusal;
	int r = 0;

	if (!store) {
		close(taken_fd);
		wait->done(wait, -ENOMEM, NULL, 0);
		return;
	}
	store->broker = broker;
	store->token = token;
	store->caller = *caller;
	strcpy(store->name, "?");
	store->task.run = store_run;
	pthread_mutex_lock(&broker->registry->lock);
	allocation = find(broker, token, &refusal);
	if (allocation) {
		strcpy(store->name, allocation_name(allocation).text);
		store->allocation_size = allocation->size;
	}
	if (!allocation)
		r = -refusal.error;
	else if (size)
		r = tensors_new(broker, caller, size, &store->tensors, &refusal);
	else
		replace(broker, allocation, caller, NULL);
	if (r == 0 && size) {
		store->tensors->fd = take_fd(&taken_fd);
		broker->registry->n_busy++;
		completion_hold(wait, &store->wait, NULL);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	closep(&taken_fd);
	if (r == 0 && size)
		workqueue_add(broker->workqueue, caller->uid, &store->task);
	else
		finish(store, wait, r, &refusal);
}

/* ---- before and instead of storing ---- */

static int tensors_look(struct broker *broker, struct token token, const char *bytes,
			size_t size, struct refusal *refusal)
{
	struct allocation *allocation;
	uint64_t allocation_size = 0;
	int r;

	if (size > LOOK_MAX)
		return 0;
	pthread_mutex_lock(&broker->registry->lock);
	allocation = find(broker, token, refusal);
	if (allocation)
		allocation_size = allocation->size;
	pthread_mutex_unlock(&broker->registry->lock);
	if (!allocation)
		return -refusal->error;
	r = tensors_check(bytes, size, allocation_size, refusal);
	return r == -ENODATA ? 0 : r;
}

static void tensors_remove(struct broker *broker, struct token token,
			   const struct caller *caller, const struct contents *contents)
{
	struct allocation *allocation;

	pthread_mutex_lock(&broker->registry->lock);
	allocation = allocation_get(broker->registry, token.slot, token.generation);
	if (allocation && !allocation->sealed && allocation->tensors &&
	    allocation->tensors == contents->object)
		replace(broker, allocation, caller, NULL);
	pthread_mutex_unlock(&broker->registry->lock);
}

const struct upload_class tensors_upload = {
	.file = "tensors",
	.most = TENSORS_TEXT_MAX,
	.too_big = "tensors has 64 MiB at most",
	.get = tensors_get,
	.put = tensors_put,
	.look = tensors_look,
	.store = tensors_store,
	.remove = tensors_remove,
};

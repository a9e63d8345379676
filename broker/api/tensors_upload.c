/* SPDX-License-Identifier: MIT */
/*
 * `tensors` of an allocation: checked when it has been written, in the work queue, since
 * 64 MiB of JSON take seconds. A short text is looked at by its write already, in a
 * thread of the view: one text of a user at a time, so users leave threads for others.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "api/upload_class.h"
#include "base/completion.h"
#include "base/refusal.h"
#include "memops/tensors.h"
#include "model/allocation.h"
#include "model/journal.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"
#include "model/tensors.h"
#include "process/broker.h"

/* Texts up to this are checked by the write itself, too. */
#define LOOK_MAX ((size_t)128 << 10)

/* A text that is being stored. */
struct storing {
	struct tensors *tensors; /* NULL: an empty text, which removes the old one */
	uint64_t allocation_size;
	char name[FULL_NAME_MAX + 1];
};

static void tensors_get(void *object, uid_t uid, struct contents *ret_contents)
{
	const struct allocation *allocation = object;

	struct tensors *tensors = allocation->rare->tensors;

	if (!tensors)
		return;
	if (tensors->payer->uid == uid)
		ret_contents->object = tensors_ref(tensors);
	ret_contents->fd = tensors->fd;
	ret_contents->size = tensors->size;
	ret_contents->number = tensors->number;
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

/* Charges the text. Under registry.lock. Returns: 0; -errno with a refusal. */
static int begin(struct broker *broker, const struct written *written,
		 struct storing *storing, struct refusal *refusal)
{
	struct allocation *allocation = allocation_get(
		broker->registry, written->token.slot, written->token.generation);

	if (allocation)
		strcpy(storing->name, allocation_name(allocation).text);
	allocation = find(broker, written->token, refusal);
	if (!allocation)
		return -refusal->error;
	storing->allocation_size = allocation->size;
	if (!written->size)
		return 0;
	if (allocation_make_rare(allocation) < 0)
		return refuse(refusal, ENOMEM, "no memory in the broker");
	return tensors_new(broker, &written->caller, written->size, &storing->tensors,
			   refusal);
}

/* Returns: 0; -errno with a refusal. */
static int check_text(const struct broker *broker, const struct storing *storing,
		      struct refusal *refusal)
{
	struct tensors *tensors = storing->tensors;
	void *text = mmap(NULL, tensors->size, PROT_READ, MAP_SHARED, tensors->fd, 0);
	int r;

	if (text == MAP_FAILED)
		return refuse(refusal, ENOMEM, "no memory in the broker");
	r = tensors_check(text, tensors->size, storing->allocation_size, refusal);
	munmap(text, tensors->size);
	return r < 0 ? r : tensors_keep(broker, tensors, refusal);
}

static void tensors_store(struct broker *broker, struct written *written)
{
	struct storing storing = { .name = "?" };
	char file[FULL_NAME_MAX + 64];
	struct allocation *allocation;
	struct completion *wait;
	struct refusal refusal;
	int r = written->error;

	if (r < 0)
		refuse(&refusal, -r, "the broker has no room for the text");
	pthread_mutex_lock(&broker->registry->lock);
	if (r == 0)
		r = begin(broker, written, &storing, &refusal);
	pthread_mutex_unlock(&broker->registry->lock);
	if (r == 0 && storing.tensors) {
		storing.tensors->fd = take_fd(&written->fd);
		r = check_text(broker, &storing, &refusal);
	}
	pthread_mutex_lock(&broker->registry->lock);
	allocation = r == 0 ? find(broker, written->token, &refusal) : NULL;
	if (allocation)
		replace(broker, allocation, &written->caller, take_ptr(storing.tensors));
	tensors_unref(broker, storing.tensors);
	wait = completion_take(&written->wait);
	pthread_mutex_unlock(&broker->registry->lock);
	if (!allocation) {
		snprintf(file, sizeof(file), "allocations/%s/tensors", storing.name);
		journal_fail(broker->journal, written->caller.uid, written->caller.pid,
			     file, refusal.error, refusal.sentence);
	}
	if (wait)
		wait->done(wait, allocation ? 0 : -refusal.error, NULL, 0);
}

/* ---- before and instead of storing ---- */

/*
 * A look takes up to 15 ms of one of the few threads that serve everybody: one at a time.
 * Under registry.lock. Returns: 0; -EBUSY during another look; -ESTALE, -EPERM with a
 * refusal.
 */
static int look_begin(struct broker *broker, struct token token, uint64_t *ret_size,
		      struct refusal *refusal)
{
	const struct allocation *allocation = find(broker, token, refusal);

	if (!allocation)
		return -refusal->error;
	if (broker->registry->looks_at_tensors)
		return -EBUSY;
	broker->registry->looks_at_tensors = true;
	*ret_size = allocation->size;
	return 0;
}

static int tensors_look(struct broker *broker, struct token token, const char *bytes,
			size_t size, struct refusal *refusal)
{
	uint64_t allocation_size = 0;
	int r;

	if (size > LOOK_MAX)
		return 0;
	pthread_mutex_lock(&broker->registry->lock);
	r = look_begin(broker, token, &allocation_size, refusal);
	pthread_mutex_unlock(&broker->registry->lock);
	if (r < 0)
		return r == -EBUSY ? 0 : r;
	r = tensors_check(bytes, size, allocation_size, refusal);
	pthread_mutex_lock(&broker->registry->lock);
	broker->registry->looks_at_tensors = false;
	pthread_mutex_unlock(&broker->registry->lock);
	return r == -ENODATA ? 0 : r;
}

static void tensors_remove(struct broker *broker, struct token token,
			   const struct caller *caller, const struct contents *contents)
{
	struct allocation *allocation;

	pthread_mutex_lock(&broker->registry->lock);
	allocation = allocation_get(broker->registry, token.slot, token.generation);
	if (allocation && !allocation->sealed && allocation->rare->tensors &&
	    allocation->rare->tensors->number == contents->number)
		replace(broker, allocation, caller, NULL);
	pthread_mutex_unlock(&broker->registry->lock);
}

const struct upload_class tensors_upload = {
	.file = "tensors",
	.most = TENSORS_TEXT_MAX,
	.too_big = "tensors has 64 MiB at most",
	.length = TASK_SLOW,
	.get = tensors_get,
	.put = tensors_put,
	.look = tensors_look,
	.store = tensors_store,
	.remove = tensors_remove,
};

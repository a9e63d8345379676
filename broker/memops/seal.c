/* SPDX-License-Identifier: MIT */
#include "memops/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <utlist.h>

#include "base/def.h"
#include "base/refusal.h"
#include "base/text.h"
#include "memops/data.h"
#include "memops/lease.h"
#include "memops/lease_private.h"
#include "memops/permissions.h"
#include "memops/shut_off.h"
#include "memory/block.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/journal.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/save.h"
#include "process/broker.h"

/* Names the first program that may be writing outside of the order. */
static int refuse_writers(const struct allocation *allocation, struct refusal *refusal)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	const struct lease *lease;

	DL_FOREACH (allocation->rare->leases, lease) {
		if (lease->write)
			break;
	}
	if (!lease)
		return refuse(refusal, EBUSY,
			      "a program that had a lease of allocation %s for writing "
			      "has not ended yet",
			      allocation_name(allocation).text);
	text_printf(&text, "pid %d (", lease->pid);
	text_add_printable(&text, lease->comm);
	text_printf(&text, ")");
	if (allocation->rare->n_write_leases > 1)
		text_printf(&text, " and %u more", allocation->rare->n_write_leases - 1);
	return refuse(refusal, EBUSY,
		      "%s may write allocation %s: a lease for writing has to be closed "
		      "first",
		      text_string(&text), allocation_name(allocation).text);
}

/*
 * A mapping of `data`, or one got by a lease, outlives its descriptor, and only the
 * kernel knows of it. Programs can't map blocks that allocations share.
 */
static bool may_be_open_for_writing(const struct allocation *allocation)
{
	return allocation->rare->n_opening ||
	       (allocation->lent && allocation->kind == KIND_HOST &&
		!allocation->block->slab && !allocation->block->unwritten);
}

/* A mapping got by a lease is of the memory's own file, without a name. */
static int refuse_mappers(const struct allocation *allocation, struct refusal *refusal)
{
	struct stat file = { 0 };

	(void)fstat(allocation->block->fd, &file);
	return refuse(
		refusal, EBUSY,
		"a program has allocation %s open for writing, or mapped: `fuser -v "
		"allocations/%s/data` names it, and after a lease `grep -l ' %llu "
		"*/memfd:' /proc/[1-9]*/maps`, beside gpumem's own processes",
		allocation_name(allocation).text, allocation_name(allocation).text,
		(unsigned long long)file.st_ino);
}

/*
 * A program that had the file open for writing may have asked the kernel to keep pages of
 * it (io_uring's registered buffers, RDMA) and write them later, with no mapping left to
 * see. Of its own memory the owner is trusted not to.
 */
static int refuse_lent(const struct allocation *allocation, struct refusal *refusal)
{
	return refuse(
		refusal, EPERM,
		"other users than uid %u had allocation %s open for writing, and the "
		"kernel may still write its pages for them: copy it (control/copy) "
		"and seal the copy",
		allocation->owner->uid, allocation_name(allocation).text);
}

/* All that the broker knows by itself. */
static int check_known(const struct caller *caller, const struct allocation *allocation,
		       struct refusal *refusal)
{
	if (!caller_may(caller, allocation, ACCESS_OWN))
		return refuse(refusal, EPERM,
			      "allocation %s belongs to uid %u, not to uid %u",
			      allocation_name(allocation).text, allocation->owner->uid,
			      caller->uid);
	if (allocation->state == ALLOCATION_LOST)
		return refuse_lost(refusal, allocation);
	if (allocation->rare->n_write_leases || allocation->rare->n_writers_departing)
		return refuse_writers(allocation, refusal);
	if (!allocation->sealed && allocation->lent_to_others)
		return refuse_lent(allocation, refusal);
	return 0;
}

int seal_check(const struct caller *caller, const struct allocation *allocation,
	       struct refusal *refusal)
{
	int r = check_known(caller, allocation, refusal);

	if (r == 0 && !allocation->sealed && may_be_open_for_writing(allocation))
		r = refuse_mappers(allocation, refusal);
	return r;
}

int seal_prepare(struct broker *broker, struct allocation *allocation, struct op **ready,
		 struct refusal *refusal)
{
	if (!allocation->sealed && guests_seal(broker, allocation, ready) < 0)
		return refuse(refusal, ENOMEM, "no memory in the broker");
	return 0;
}

void seal_note_lent(struct allocation *allocation, uid_t uid)
{
	allocation_lend(allocation, uid);
	if (!allocation->block)
		return;
	allocation->block->n_lent++;
	allocation->block->unwritten = false;
}

/* A question to the kernel about the file of an allocation. */
struct question {
	struct token token;
	int fd; /* -1: nothing is to be asked */
	const struct block *block;
	uint32_t n_lent;
};

/* Under registry.lock. */
static bool question_is_needed(const struct allocation *allocation)
{
	return !allocation->sealed && !allocation->rare->n_opening &&
	       may_be_open_for_writing(allocation);
}

bool seal_question_lasts(const struct caller *caller, const struct allocation *allocation)
{
	struct refusal refusal;

	return check_known(caller, allocation, &refusal) == 0 &&
	       question_is_needed(allocation) && allocation->block->given;
}

/* Under registry.lock. Returns: 0; -EPERM, -EBUSY, -ESTALE. */
static int question_init(struct question *question, const struct caller *caller,
			 const struct allocation *allocation)
{
	struct refusal refusal;
	int r = check_known(caller, allocation, &refusal);

	if (r < 0 || !question_is_needed(allocation))
		return r;
	*question = (struct question){
		.token = { allocation->slot, allocation->slot_generation },
		.fd = fcntl(allocation->block->fd, F_DUPFD_CLOEXEC, 0),
		.block = allocation->block,
		.n_lent = allocation->block->n_lent,
	};
	return 0;
}

/* The answer counts if no program got the file meanwhile. Under registry.lock. */
static void question_answered(const struct question *question,
			      const struct broker *broker)
{
	const struct allocation *allocation = allocation_get(
		broker->registry, question->token.slot, question->token.generation);

	if (allocation && allocation->block == question->block &&
	    allocation->block->n_lent == question->n_lent)
		allocation->block->unwritten = true;
}

/* No lock held. Returns: false when somebody has the memory open for writing. */
static bool question_ask(struct broker *broker, struct question *question)
{
	bool is_open;

	if (question->fd < 0)
		return true;
	is_open = host_file_is_open_for_writing(question->fd);
	closep(&question->fd);
	if (is_open)
		return false;
	pthread_mutex_lock(&broker->registry->lock);
	question_answered(question, broker);
	pthread_mutex_unlock(&broker->registry->lock);
	return true;
}

bool seal_ask(struct broker *broker, const struct caller *caller, const char *name)
{
	struct question question = { .fd = -1 };
	const struct allocation *allocation;
	struct refusal refusal;
	int r = -ENOENT;

	pthread_mutex_lock(&broker->registry->lock);
	allocation = allocation_find_made(broker->registry, name, caller, &refusal);
	if (allocation)
		r = question_init(&question, caller, allocation);
	pthread_mutex_unlock(&broker->registry->lock);
	return r == 0 && question_ask(broker, &question);
}

void seal_ask_of(struct broker *broker, const struct caller *caller, struct token token)
{
	struct question question = { .fd = -1 };
	const struct allocation *allocation;

	pthread_mutex_lock(&broker->registry->lock);
	allocation = allocation_get(broker->registry, token.slot, token.generation);
	if (allocation)
		(void)question_init(&question, caller, allocation);
	pthread_mutex_unlock(&broker->registry->lock);
	(void)question_ask(broker, &question);
}

int broker_note_opening(struct broker *broker, struct token token, uid_t uid)
{
	struct allocation *allocation;
	int r = 0;

	pthread_mutex_lock(&broker->registry->lock);
	allocation = allocation_get(broker->registry, token.slot, token.generation);
	if (!allocation)
		r = -ESTALE;
	else if (allocation->sealed)
		r = -EPERM;
	else
		r = allocation_make_rare(allocation);
	if (r == 0) {
		allocation->rare->n_opening++;
		seal_note_lent(allocation, uid);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	return r;
}

void broker_note_opened(struct broker *broker, struct token token)
{
	struct allocation *allocation;

	pthread_mutex_lock(&broker->registry->lock);
	allocation = allocation_get(broker->registry, token.slot, token.generation);
	if (allocation)
		allocation->rare->n_opening--;
	pthread_mutex_unlock(&broker->registry->lock);
}

void seal(struct broker *broker, struct allocation *allocation,
	  const struct caller *caller, struct op **ready)
{
	if (allocation->sealed)
		return;
	allocation->sealed = true;
	/* Without memory they are refused when they begin. */
	(void)guests_turn_away(allocation, ready);
	allocation_save(allocation);
	journal_event_by(broker->journal, caller, "seal allocations/%s",
			 allocation_name(allocation).text);
	leases_note_changed(broker, allocation);
}

/* SPDX-License-Identifier: MIT */
#include "memops/data_answer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/completion.h"
#include "base/number.h"
#include "base/refusal.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/journal.h"
#include "model/registry.h"
#include "op/op.h"
#include "process/broker.h"

int data_errno(int error)
{
	return error == ENOSPC || error == EPERM || error == ESTALE || error == EINTR ||
			       error == EBUSY || error == EMFILE || error == EDQUOT
		       ? error
		       : EIO;
}

void data_fail(struct broker *broker, uid_t uid, pid_t pid, const char *name, int error,
	       const char *sentence)
{
	char file[128];

	snprintf(file, sizeof(file), "allocations/%s/data", name);
	journal_fail(broker->journal, uid, pid, file, error, sentence);
}

void data_charge(struct op *op, const struct caller *caller)
{
	op->uid = caller->uid;
	op->pid = caller->pid;
	op_charge(op, caller);
}

void data_answer(struct completion *wait, int error, size_t length)
{
	wait->done(wait, error, NULL, length);
}

struct allocation *data_find(struct broker *broker, struct token token,
			     const struct caller *caller, struct completion *wait)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	const struct freed *freed;
	struct allocation *allocation;
	char name[FULL_NAME_MAX + 1];

	pthread_mutex_lock(&broker->registry->lock);
	allocation = allocation_get(broker->registry, token.slot, token.generation);
	if (allocation)
		return allocation;
	freed = registry_find_freed(broker->registry, token);
	strcpy(name, freed_name(freed));
	text_printf(&text, "allocation %s (id %llu) has been freed", name,
		    (unsigned long long)(freed ? freed->id : 0));
	pthread_mutex_unlock(&broker->registry->lock);
	data_fail(broker, caller->uid, caller->pid, name, ESTALE, text_string(&text));
	data_answer(wait, -ESTALE, 0);
	return NULL;
}

struct allocation *data_find_to_write(struct broker *broker, struct token token,
				      const struct caller *caller,
				      struct completion *wait)
{
	struct allocation *allocation = data_find(broker, token, caller, wait);
	char name[FULL_NAME_MAX + 1];
	struct refusal refusal;

	if (!allocation || !allocation->sealed)
		return allocation;
	strcpy(name, allocation_name(allocation).text);
	(void)refuse_sealed(&refusal, allocation);
	pthread_mutex_unlock(&broker->registry->lock);
	data_fail(broker, caller->uid, caller->pid, name, EPERM, refusal.sentence);
	data_answer(wait, -EPERM, 0);
	return NULL;
}

void data_no_space(struct broker *broker, const struct allocation *allocation,
		   const struct caller *caller, uint64_t offset, uint64_t length,
		   struct completion *wait)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	char name[FULL_NAME_MAX + 1];

	strcpy(name, allocation_name(allocation).text);
	text_printf(&text, "%s (%s) does not grow and has no room for %s at offset %s",
		    name, size_text(allocation->size), size_text(length),
		    size_typed(offset));
	pthread_mutex_unlock(&broker->registry->lock);
	data_fail(broker, caller->uid, caller->pid, name, ENOSPC, text_string(&text));
	data_answer(wait, -ENOSPC, 0);
}

void data_note_refused(struct op *op, int error)
{
	op_keep_name(op);
	op->error = data_errno(-error);
	if (share_is_refusal(error))
		share_explain(op->payer, &op->sentence);
	else if (error == -ESTALE)
		text_printf(&op->sentence, "the broker is shutting down");
	else
		text_printf(&op->sentence, "no memory in the broker");
}

void data_drop_op(struct op *op, struct completion *wait)
{
	int error = op->error;

	data_fail(op->broker, op->uid, op->pid, op_name(op), error,
		  text_string(&op->sentence));
	op_free(op);
	data_answer(wait, -error, 0);
}

void data_no_memory(struct broker *broker, struct completion *wait)
{
	pthread_mutex_unlock(&broker->registry->lock);
	data_answer(wait, -EIO, 0);
}

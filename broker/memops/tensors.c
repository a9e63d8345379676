/* SPDX-License-Identifier: MIT */
#include "memops/tensors.h"

#include <errno.h>
#include <stdlib.h>

#include "base/def.h"
#include "base/refusal.h"
#include "base/text.h"
#include "memops/late_close.h"
#include "memory/kept.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/save.h"
#include "model/shares.h"
#include "model/tensors.h"
#include "process/broker.h"
#include "record/records.h"

/* Returns: 0; -EDQUOT, -EMFILE, -ENOMEM. */
static int charge(struct owner *payer, uint64_t size)
{
	int r = share_take(payer, SHARE_TENSORS, size);

	if (r < 0)
		return r;
	r = share_take(payer, SHARE_DESCRIPTORS, 1);
	if (r < 0)
		share_give(payer, SHARE_TENSORS, size);
	return r;
}

static struct tensors *tensors_make(struct registry *registry, struct owner *payer,
				    uint64_t size)
{
	struct tensors *tensors = calloc(1, sizeof(*tensors));

	if (tensors)
		*tensors = (struct tensors){
			.n_refs = 1,
			.payer = payer,
			.size = size,
			.number = ++registry->n_tensors,
			.fd = -1,
		};
	return tensors;
}

int tensors_new(struct broker *broker, const struct caller *caller, uint64_t size,
		struct tensors **ret_tensors, struct refusal *refusal)
{
	struct owner *payer = owner_get(broker->registry, caller->uid, caller->gid);
	_cleanup_text_ struct text why = TEXT_INIT;
	int r = payer ? charge(payer, size) : -ENOMEM;

	if (r == 0) {
		*ret_tensors = tensors_make(broker->registry, payer, size);
		if (*ret_tensors)
			return 0;
		share_give(payer, SHARE_TENSORS, size);
		share_give(payer, SHARE_DESCRIPTORS, 1);
		r = -ENOMEM;
	} else if (share_is_refusal(r)) {
		share_explain(payer, &why);
		return refuse(refusal, -r, "%s", text_string(&why));
	}
	return refuse(refusal, -r, "no memory in the broker");
}

/* ---- records ---- */

int tensors_keep(const struct broker *broker, struct tensors *tensors,
		 struct refusal *refusal)
{
	int r = kept_add(broker->memory, RECORD_TENSORS, tensors->fd, &tensors->record);

	return r < 0 ? kept_refuse(r, refusal) : 0;
}

static void tensors_save(const struct broker *broker, const struct tensors *tensors)
{
	struct tensors_record record;

	tensors_to_record(tensors, &record);
	records_save(broker->registry->records, RECORD_TENSORS, tensors->record, &record);
}

struct tensors *tensors_restore(struct broker *broker, uint32_t index,
				const struct tensors_record *record, int fd)
{
	struct owner *payer = owner_make(broker->registry, record->payer);
	struct tensors *tensors =
		payer ? tensors_make(broker->registry, payer, record->size) : NULL;

	if (!tensors) {
		close(fd);
		return NULL;
	}
	tensors->fd = fd;
	tensors->record = index;
	share_restore(payer, SHARE_TENSORS, record->size);
	share_restore(payer, SHARE_DESCRIPTORS, 1);
	return tensors;
}

/* ---- references ---- */

struct tensors *tensors_ref(struct tensors *tensors)
{
	tensors->n_refs++;
	return tensors;
}

static void tensors_end(struct broker *broker, struct tensors *tensors)
{
	const struct late_close end = {
		.fds = { tensors->fd, -1, -1 },
		.kept = kept_key(broker->memory, RECORD_TENSORS, tensors->record),
		.bytes = tensors->size,
		.payer = tensors->payer,
		.share = SHARE_TENSORS,
		.size = tensors->size,
		.n_descriptors = 1,
	};

	records_drop(broker->registry->records, RECORD_TENSORS, tensors->record);
	late_close(broker, &end);
	free(tensors);
}

struct tensors *tensors_unref(struct broker *broker, struct tensors *tensors)
{
	if (tensors && !--tensors->n_refs)
		tensors_end(broker, tensors);
	return NULL;
}

void tensors_set(struct broker *broker, struct allocation *allocation,
		 struct tensors *tensors)
{
	struct tensors *old = allocation->rare->tensors;

	records_begin(broker->registry->records);
	if (tensors)
		tensors_save(broker, tensors);
	/* An allocation without tensors may have the constant `rare` of all. */
	if (old != tensors)
		allocation->rare->tensors = tensors;
	allocation_save(allocation);
	tensors_unref(broker, old);
	records_end(broker->registry->records);
}

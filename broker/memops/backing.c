/* SPDX-License-Identifier: MIT */
/* The kernel's numbers of host memory, for files that can be mapped (memops/data.h). */
#include "memops/data.h"

#include <errno.h>

#include "memory/block.h"
#include "model/allocation.h"
#include "model/registry.h"
#include "process/broker.h"
#include "record/records.h"

/* Under registry.lock. Returns: NULL: the allocation is gone. */
static struct block *block_of(struct broker *broker, struct token token)
{
	struct allocation *allocation =
		allocation_get(broker->registry, token.slot, token.generation);

	return allocation ? allocation->block : NULL;
}

uint32_t broker_backing(struct broker *broker, struct token token)
{
	const struct block *block;
	uint32_t backing;

	pthread_mutex_lock(&broker->registry->lock);
	block = block_of(broker, token);
	backing = block ? block->backing : 0;
	pthread_mutex_unlock(&broker->registry->lock);
	return backing;
}

int broker_note_backing(struct broker *broker, struct token token, uint32_t backing)
{
	struct block *block;

	pthread_mutex_lock(&broker->registry->lock);
	block = block_of(broker, token);
	if (block) {
		block->backing = backing;
		block_save(broker->memory, block, 0);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	return block ? 0 : -ESTALE;
}

void broker_close_backings(struct broker *broker, void (*close)(uint32_t backing))
{
	__atomic_store_n(&broker->memory->backing_close, close, __ATOMIC_RELEASE);
}

void broker_mark_backings(struct broker *broker, uint8_t *is_used, uint32_t n)
{
	const struct records *records = broker->memory->records;
	const struct block_record *record;

	pthread_mutex_lock(&broker->registry->lock);
	for (uint32_t i = 1;
	     records && (record = records_next(records, RECORD_BLOCK, &i)); i++) {
		if (record->backing && record->backing < n)
			is_used[record->backing] = 1;
	}
	pthread_mutex_unlock(&broker->registry->lock);
}

/* SPDX-License-Identifier: MIT */
/* The kernel's numbers of host memory, for files that can be mapped (memops/data.h). */
#include "memops/data.h"

#include <errno.h>

#include "base/def.h"
#include "memory/block.h"
#include "model/allocation.h"
#include "model/registry.h"
#include "model/save.h"
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
		records_begin(broker->registry->records);
		block_save(broker->memory, block, 0);
		registry_save_backing(broker->registry, backing);
		records_end(broker->registry->records);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	return block ? 0 : -ESTALE;
}

void broker_close_backings(struct broker *broker, void (*close)(uint32_t backing))
{
	__atomic_store_n(&broker->memory->backing_close, close, __ATOMIC_RELEASE);
}

uint32_t broker_last_backing(struct broker *broker)
{
	const struct records *records = broker->memory->records;
	const struct broker_record *record;
	const struct block_record *block;
	uint32_t last;

	if (!records)
		return 0;
	pthread_mutex_lock(&broker->registry->lock);
	record = records_get(records, RECORD_BROKER, 1);
	last = record ? (uint32_t)record->last_backing : 0;
	/* Brokers of older programs have noted the numbers of blocks alone. */
	for (uint32_t i = 1; (block = records_next(records, RECORD_BLOCK, &i)); i++)
		last = MAX(last, block->backing);
	pthread_mutex_unlock(&broker->registry->lock);
	return last;
}

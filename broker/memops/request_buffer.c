/* SPDX-License-Identifier: MIT */
/*
 * Buffers for the view to read requests into: slots of the mover's staging area, where
 * the GPU can read the payload. When all slots are in use, ordinary memory serves, so a
 * hung mover blocks no request.
 */
#include <errno.h>

#include "memops/data.h"
#include "op/op.h"
#include "process/processes.h"

/* Slots reserved for reads, even if every writer holds a slot. */
#define SLOTS_FOR_READS 8
/* fuse_in_header and fuse_write_in come right before the payload's page. */
#define WRITE_HEADERS 80

int broker_buffer_get(struct broker *broker, struct buffer *ret_buffer)
{
	struct staging *staging = &broker->processes->mover.staging;
	int slot = -1;
	uint8_t *memory;

	pthread_mutex_lock(&broker->processes->mover.lock);
	if (staging->n_free > SLOTS_FOR_READS)
		slot = staging_get(staging);
	pthread_mutex_unlock(&broker->processes->mover.lock);
	if (slot >= 0) {
		*ret_buffer = (struct buffer){
			.slot = slot,
			.memory = staging_payload(staging, (unsigned int)slot) -
				  WRITE_HEADERS,
			.size = STAGING_SLOT - STAGING_HEADER + WRITE_HEADERS,
		};
		return 0;
	}
	memory = malloc(STAGING_SLOT);
	if (!memory)
		return -ENOMEM;
	*ret_buffer =
		(struct buffer){ .slot = -1, .memory = memory, .size = STAGING_SLOT };
	return 0;
}

void broker_buffer_put(struct broker *broker, struct buffer *buffer)
{
	if (!buffer->memory)
		return;
	if (buffer->slot >= 0)
		op_slot_release(&broker->processes->mover, buffer->slot);
	else
		free(buffer->memory);
	*buffer = (struct buffer){ .slot = -1 };
}

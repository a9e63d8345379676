/* SPDX-License-Identifier: MIT */
#include "api/broker.h"

#include "base/def.h"
#include "base/hash.h"
#include "model/owner.h"
#include "model/registry.h"
#include "process/broker.h"
#include "record/records.h"

unsigned int broker_pause(struct broker *broker)
{
	struct registry *registry = broker->registry;
	struct owner *owner, *safe;
	uint64_t n = 0;

	pthread_mutex_lock(&registry->lock);
	/* Frees and zeroing that follow from others are in the records. */
	HASH_ITER (hh, registry->owners_by_uid, owner, safe)
		n += owner->shares.held[SHARE_OPERATIONS] +
		     owner->shares.held[SHARE_WAITS];
	if (n) {
		pthread_mutex_unlock(&registry->lock);
		return (unsigned int)MIN(n, (uint64_t)UINT32_MAX);
	}
	records_begin(registry->records);
	return 0;
}

void broker_go_on(struct broker *broker)
{
	records_end(broker->registry->records);
	pthread_mutex_unlock(&broker->registry->lock);
}

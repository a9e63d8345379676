/* SPDX-License-Identifier: MIT */
#include "model/meter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/owner.h"
#include "model/registry.h"
#include "record/records.h"

_Static_assert(sizeof(struct meter) <= RECORD_METER_WORDS * sizeof(uint64_t) &&
		       N_KINDS <= METER_KINDS && N_MOVE_CAUSES <= METER_CAUSES,
	       "a meter fits its record");

/* The first of the records. */
#define SHARED_METER 1

static uint32_t record_new(struct registry *registry, uid_t uid)
{
	uint32_t index = records_add(registry->records, RECORD_METER);
	struct meter_record record = { .uid = uid };

	records_save(registry->records, RECORD_METER, index, &record);
	return index;
}

/* What is held is counted anew. */
static struct meter *record_meter(struct registry *registry, uint32_t index)
{
	struct meter_record *record =
		records_place(registry->records, RECORD_METER, index);
	struct meter *meter = (struct meter *)record->words;

	for (int i = 0; i < DEVICES_MAX; i++) {
		memset(meter->devices[i].bytes, 0, sizeof(meter->devices[i].bytes));
		memset(meter->devices[i].allocations, 0,
		       sizeof(meter->devices[i].allocations));
	}
	return meter;
}

int meters_keep_records(struct registry *registry)
{
	uint32_t index = SHARED_METER;

	if (!records_get(registry->records, RECORD_METER, index))
		index = record_new(registry, UINT32_MAX);
	if (index != SHARED_METER)
		return -ENOMEM;
	registry->shared_meter = record_meter(registry, index);
	return 0;
}

void meters_drop_rest(struct registry *registry)
{
	const struct meter_record *record;

	for (uint32_t i = SHARED_METER + 1;
	     (record = records_next(registry->records, RECORD_METER, &i)); i++) {
		const struct owner *owner = owner_find(registry, record->uid);

		if (!owner || owner->meter_record != i)
			records_drop(registry->records, RECORD_METER, i);
	}
}

int meter_begin(struct registry *registry, struct owner *owner, uint32_t record)
{
	if (!record && registry->n_meters >= METERS_MAX) {
		owner->meter = registry->shared_meter;
		return 0;
	}
	if (registry->records) {
		owner->meter_record = record ? record : record_new(registry, owner->uid);
		if (owner->meter_record)
			owner->meter = record_meter(registry, owner->meter_record);
	} else {
		owner->meter = calloc(1, sizeof(*owner->meter));
	}
	if (!owner->meter)
		return -ENOMEM;
	registry->n_meters++;
	return 0;
}

void meter_end(struct registry *registry, struct owner *owner)
{
	if (meter_is_shared(registry, owner))
		return;
	if (owner->meter_record)
		records_drop(registry->records, RECORD_METER, owner->meter_record);
	else
		free(owner->meter);
	registry->n_meters--;
}

bool meter_is_shared(const struct registry *registry, const struct owner *owner)
{
	return owner->meter == registry->shared_meter;
}

/* SPDX-License-Identifier: MIT */
/*
 * What an owner holds and has done, by device and kind: the source of `metrics`. The
 * figures are kept up to date by those who change them, so a reader looks at owners,
 * never at allocations.
 *
 * The first METERS_MAX owners have a meter each, all further ones share a meter: users
 * who make owners by the thousand (with a range of uids of their own) can't make the
 * file grow. With records a meter is counted in its record, and goes on after the death
 * of the broker. All under the registry's lock.
 */
#pragma once

#include "model/allocation.h"
#include "model/device.h"

#define METERS_MAX 1024

struct owner;
struct registry;

/* Why bytes of an allocation were moved. */
enum move_cause {
	MOVED_NOT, /* an op that moves none */
	MOVED_READ,
	MOVED_WRITE,
	MOVED_FILL,
	MOVED_COPY,
	MOVED_LOAD,
	MOVED_SAVE,
	N_MOVE_CAUSES,
};

/* Meters lie in records: these leave room for kinds and causes to come. */
#define METER_KINDS  8
#define METER_CAUSES 8

/* Host memory is of no device: it counts with the first, and is told by its kind. */
struct device_meter {
	uint64_t bytes[METER_KINDS];	   /* held */
	uint64_t allocations[METER_KINDS]; /* live */
	uint64_t moved[METER_CAUSES][METER_KINDS];
	uint64_t launches;
	uint64_t faults;
	uint64_t reserved[6];
};

struct meter {
	uint64_t restarts;
	struct device_meter devices[DEVICES_MAX];
};

/*
 * Gives a new owner a meter: the one of the record, 0: a new one, as long as there are
 * some. What is held is counted anew. Returns: 0; -ENOMEM.
 */
int meter_begin(struct registry *registry, struct owner *owner, uint32_t record);
void meter_end(struct registry *registry, struct owner *owner);

/* From now on meters are counted in records. Returns: 0; -ENOMEM. */
int meters_keep_records(struct registry *registry);

/* Frees meters whose owners are not there. */
void meters_drop_rest(struct registry *registry);

/* Whether the owner shares the meter with others. */
bool meter_is_shared(const struct registry *registry, const struct owner *owner);

/* Where an allocation's memory is counted, with its owner. */
static inline struct device_meter *meter_of(struct meter *meter,
					    const struct allocation *allocation)
{
	return &meter->devices[allocation->kind == KIND_HOST ? 0 : allocation->device];
}

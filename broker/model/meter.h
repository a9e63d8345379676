/* SPDX-License-Identifier: MIT */
/*
 * What an owner holds and has done, by device and kind: the source of `metrics`. The
 * figures are kept up to date by those who change them, so a reader looks at owners,
 * never at allocations.
 *
 * The first METERS_MAX owners have a meter each, all further ones share a meter: users
 * who make owners by the thousand (with a range of uids of their own) can't make the
 * file grow. All under the registry's lock.
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

/* Host memory is of no device: it counts with the first, and is told by its kind. */
struct device_meter {
	uint64_t bytes[N_KINDS];       /* held */
	uint64_t allocations[N_KINDS]; /* live */
	uint64_t moved[N_MOVE_CAUSES][N_KINDS];
	uint64_t launches;
	uint64_t faults;
};

struct meter {
	uint64_t restarts;
	struct device_meter devices[DEVICES_MAX];
};

/* Gives a new owner a meter. Returns: 0; -ENOMEM. */
int meter_begin(struct registry *registry, struct owner *owner);
void meter_end(struct registry *registry, struct owner *owner);

/* Whether the owner shares the meter with others. */
bool meter_is_shared(const struct registry *registry, const struct owner *owner);

/* Where an allocation's memory is counted, with its owner. */
static inline struct device_meter *meter_of(struct meter *meter,
					    const struct allocation *allocation)
{
	return &meter->devices[allocation->kind == KIND_HOST ? 0 : allocation->device];
}

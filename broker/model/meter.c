/* SPDX-License-Identifier: MIT */
#include "model/meter.h"

#include <errno.h>
#include <stdlib.h>

#include "model/owner.h"
#include "model/registry.h"

int meter_begin(struct registry *registry, struct owner *owner)
{
	if (registry->n_meters == METERS_MAX) {
		owner->meter = &registry->shared_meter;
		return 0;
	}
	owner->meter = calloc(1, sizeof(*owner->meter));
	if (!owner->meter)
		return -ENOMEM;
	registry->n_meters++;
	return 0;
}

void meter_end(struct registry *registry, struct owner *owner)
{
	if (meter_is_shared(registry, owner))
		return;
	free(owner->meter);
	registry->n_meters--;
}

bool meter_is_shared(const struct registry *registry, const struct owner *owner)
{
	return owner->meter == &registry->shared_meter;
}

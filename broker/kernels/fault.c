/* SPDX-License-Identifier: MIT */
#include "kernels/fault.h"

#include <string.h>

#include "base/text.h"
#include "kernels/launch.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/owner.h"
#include "model/registry.h"
#include "process/broker.h"

/* An address further away than this from any allocation says nothing of them. */
#define NEAR ((uint64_t)1 << 30)

struct place {
	bool found;
	struct token token; /* of the allocation */
	uint64_t distance;  /* 0: inside, or right behind the end */
};

static uint64_t distance_from(const struct allocation *allocation, uint64_t address)
{
	uint64_t end = allocation->address + allocation->size;

	if (address < allocation->address)
		return allocation->address - address;
	return address < end ? 0 : address - end;
}

static bool holds(const struct allocation *allocation, uint64_t address)
{
	return address - allocation->address < allocation->size;
}

/*
 * Takes the allocation if it is nearer. Of two at the same distance, the allocation that
 * has the address between its ends wins.
 */
static void place_try(struct place *place, const struct allocation *allocation,
		      uint64_t address)
{
	uint64_t distance;

	/* The address of an allocation that is still being made belongs to its maker. */
	if (allocation->state != ALLOCATION_LIVE)
		return;
	distance = distance_from(allocation, address);
	if (distance > NEAR)
		return;
	if (place->found && (distance > place->distance || (distance == place->distance &&
							    !holds(allocation, address))))
		return;
	*place = (struct place){
		.found = true,
		.token = { allocation->slot, allocation->slot_generation },
		.distance = distance,
	};
}

/*
 * The allocation next to the address. A kernel that ran alone is looked for among its own
 * arguments first, then, as any other, among all allocations that its owner may read.
 * Under registry.lock, which is let go of meanwhile.
 */
static struct place place_find(const struct launch *launch, bool alone, uint64_t address)
{
	const struct work *work = &launch->op.work;
	struct registry *registry = launch->op.broker->registry;
	const struct allocation *allocation;
	struct allocation_walk walk = { 0 };
	struct place place = { 0 };

	for (unsigned int i = 0; alone && i < work->n_uses; i++)
		place_try(&place, work->uses[i].allocation, address);
	if (place.found)
		return place;
	while ((allocation = allocation_walk_next(registry, &walk)))
		if (owner_may(launch->op.owner, allocation, ACCESS_READ))
			place_try(&place, allocation, address);
	return place;
}

static void place_print(const struct place *place, const struct registry *registry,
			uint64_t address, struct text *text)
{
	const struct allocation *allocation =
		place->found ? allocation_get(registry, place->token.slot,
					      place->token.generation)
			     : NULL;
	unsigned long long distance = place->distance;

	if (!allocation)
		return;
	if (holds(allocation, address))
		text_printf(text, ", byte %llu of",
			    (unsigned long long)(address - allocation->address));
	else if (address < allocation->address)
		text_printf(text, ", %llu bytes before the start of", distance);
	else if (distance)
		text_printf(text, ", %llu bytes behind the end of", distance);
	else
		text_printf(text, ", right behind the end of");
	text_printf(text, " %s (%llu bytes)", allocation_name(allocation).text,
		    (unsigned long long)allocation->size);
}

/* Where an address is written in the text. Returns: behind the address; NULL: nowhere. */
static const char *address_find(const char *text, uint64_t *ret_address)
{
	const char *at = strstr(text, "0x");
	char *end;

	if (!at)
		return NULL;
	*ret_address = strtoull(at, &end, 16);
	return end;
}

void text_add_fault(struct text *text, const struct launch *launch, bool alone,
		    const char *words)
{
	_cleanup_free_ char *line = words ? strndup(words, strcspn(words, "\n")) : NULL;
	struct registry *registry = launch->op.broker->registry;
	struct place place;
	const char *rest;
	uint64_t address;

	if (!line || !*line)
		return;
	text_printf(text, ": ");
	rest = address_find(line, &address);
	if (!rest) {
		text_add_printable(text, line);
		return;
	}
	_cleanup_free_ char *head = strndup(line, (size_t)(rest - line));

	text_add_printable(text, head ?: "");
	pthread_mutex_lock(&registry->lock);
	place = place_find(launch, alone, address);
	place_print(&place, registry, address, text);
	pthread_mutex_unlock(&registry->lock);
	text_add_printable(text, rest);
}

/* SPDX-License-Identifier: MIT */
/* Prints leases: the text for programs, and lines for people. */
#include "base/number.h"
#include "base/text.h"
#include "base/user_socket.h"
#include "memops/lease.h"
#include "memops/lease_private.h"
#include "memory/block.h"
#include "model/allocation.h"
#include "model/registry.h"
#include "process/broker.h"

#include <gpumem/wire.h>
#include <utlist.h>

static const char *const hold_names[] = {
	[GPUMEM_HOLD_NONE] = "none",
	[GPUMEM_HOLD_READ] = "r",
	[GPUMEM_HOLD_WRITE] = "w",
};

const char *hold_name(enum gpumem_hold hold)
{
	return hold_names[hold];
}

static const struct {
	const char *word;
	enum allocation_state state;
} states[] = {
	{ "live", ALLOCATION_LIVE },
	{ "lost", ALLOCATION_LOST },
	{ "freed", ALLOCATION_FREED },
};

static const char *lease_state(const struct lease *lease)
{
	if (!lease->allocation)
		return "ending";
	if (lease->allocation->replaced)
		return "replaced";
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		if (states[i].state == lease->allocation->state)
			return states[i].word;
	}
	return "live";
}

static void lease_print_ticket(const struct lease *lease, struct text *text)
{
	text_printf(text, "%llu:", (unsigned long long)lease->id);
	for (size_t i = 0; i < sizeof(lease->secret); i++)
		text_printf(text, "%02x", lease->secret[i]);
}

/*
 * Version 2 says that the allocation does not begin where its mapping begins. A program
 * that knows only version 1 refuses such a lease, or it would use the wrong bytes.
 */
static int lease_version(const struct allocation *allocation)
{
	return allocation && allocation->address != allocation->block->address ? 2 : 1;
}

void lease_print(const struct lease *lease, struct text *text)
{
	const struct allocation *allocation = lease->allocation;
	const struct broker *broker = lease->broker;

	text_printf(text, "version %d\nlease %llu\nstate %s\n", lease_version(allocation),
		    (unsigned long long)lease->id, lease_state(lease));
	if (!allocation)
		return;
	text_printf(text, "ticket ");
	lease_print_ticket(lease, text);
	text_printf(text, "\nsocket ");
	if (broker->socket)
		text_add_user_socket(text, broker->socket, lease->uid);
	else
		text_printf(text, "none");
	text_printf(text, "\n");
	text_printf(text,
		    "access %s\nhold %s\nid %llu\nname %s\ngeneration %u\nsealed %d\n"
		    "kind %s\n",
		    lease->write ? "w" : "r", hold_names[lease->hold],
		    (unsigned long long)allocation->id, allocation_name(allocation).text,
		    allocation->pointer_generation, allocation->sealed,
		    kind_name((enum allocation_kind)allocation->kind));
	if (allocation->kind == KIND_HOST)
		text_printf(text, "device none\nuuid none\n");
	else
		text_printf(text, "device %u\nuuid %s\n", allocation->device,
			    broker->registry->device_at[allocation->device]->uuid);
	text_printf(text,
		    "address 0x%llx\nsize_bytes %llu\nmapped_address 0x%llx\n"
		    "mapped_bytes %llu\n",
		    (unsigned long long)allocation->address,
		    (unsigned long long)allocation->size,
		    (unsigned long long)allocation->block->address,
		    (unsigned long long)allocation->block->size);
	if (allocation->kind != KIND_HOST)
		text_printf(text, "range_address 0x%llx\nrange_bytes %llu\n",
			    (unsigned long long)WIRE_DEVICE_BASE +
				    allocation->device * WIRE_DEVICE_SPAN,
			    (unsigned long long)WIRE_DEVICE_SPAN);
}

static void lease_show(const struct lease *lease, struct text *text)
{
	text_printf(text, "%d %u %s ", lease->pid, lease->uid, lease->write ? "w" : "r");
	text_time(text, lease->since_s);
	text_printf(text, " hold=%s ",
		    hold_names[lease->held ? lease->hold : GPUMEM_HOLD_NONE]);
	text_add_printable(text, lease->comm);
	text_printf(text, "\n");
}

uint64_t leases_count(const struct broker *broker)
{
	return HASH_COUNT(broker->leases->by_id);
}

void leases_show(const struct broker *broker, const struct allocation *allocation,
		 struct text *text)
{
	const struct lease *lease;

	if (allocation) {
		DL_FOREACH (allocation->leases, lease)
			lease_show(lease, text);
		return;
	}
	for (lease = broker->leases->by_id; lease; lease = lease->hh.next) {
		if (!lease->allocation)
			continue;
		if (lease->allocation->state == ALLOCATION_FREED)
			text_printf(text, "#%llu ",
				    (unsigned long long)lease->allocation->id);
		else
			text_printf(text, "%s ", allocation_name(lease->allocation).text);
		lease_show(lease, text);
	}
}

void text_add_lease_holders(struct text *text, const struct broker *broker,
			    uint32_t device)
{
	uint64_t bytes = broker->registry->leased_on[device].freed_bytes;
	const struct lease *lease;
	const char *joint = ", by";
	unsigned int n = 0;

	if (!bytes)
		return;
	text_printf(text, "; %s of freed allocations are still leased", size_text(bytes));
	for (lease = broker->leases->by_id; lease && n < 3; lease = lease->hh.next) {
		const struct allocation *allocation = lease->allocation;

		if (!allocation || allocation->state != ALLOCATION_FREED ||
		    allocation->kind == KIND_HOST || allocation->device != device)
			continue;
		text_printf(text, "%s pid %d (", joint, lease->pid);
		text_add_printable(text, lease->comm);
		text_printf(text, ", uid %u, %s)", lease->uid,
			    size_text(allocation->block->size));
		joint = ",";
		n++;
	}
}

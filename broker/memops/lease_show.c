/* SPDX-License-Identifier: MIT */
/* Prints leases: the text for programs, and lines for people. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/def.h"
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

#define HOLDERS_NAMED 3
/* Everybody waits for the lock meanwhile, and users may have 4096 leases each. */
#define HOLDERS_LOOKED_AT 1024

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

uint64_t leases_count(const struct broker *broker)
{
	return HASH_COUNT(broker->leases->by_id);
}

/* ---- lists ---- */

#define PIECE 32 /* leases copied under one taking of the lock */

struct lease_row {
	struct full_name name; /* for the list of all */
	uint64_t freed;	       /* id of a freed allocation, or 0 */
	pid_t pid;
	uid_t uid;
	bool write;
	int64_t since_s;
	enum gpumem_hold hold;
	char comm[PROCESS_NAME_MAX];
};

static struct lease *behind(const struct lease *lease, bool of_allocation)
{
	return of_allocation ? lease->next : lease->hh.next;
}

void lease_leave_list(const struct lease *lease, bool of_allocation)
{
	struct leases *leases = lease->broker->leases;
	struct lease_cursor *cursor;

	LL_FOREACH2(leases->cursors, cursor, le_next)
	{
		if (cursor->of_allocation == of_allocation && cursor->next == lease)
			cursor->next = behind(lease, of_allocation);
	}
	if (!of_allocation && leases->left == lease)
		leases->left = behind(lease, false);
}

static void row_copy(struct lease_row *row, const struct lease *lease, bool of_allocation)
{
	const struct allocation *allocation = lease->allocation;

	row->freed = allocation->state == ALLOCATION_FREED ? allocation->id : 0;
	row->name.text[0] = '\0';
	if (!of_allocation && !row->freed)
		row->name = allocation_name(allocation);
	row->pid = lease->pid;
	row->uid = lease->uid;
	row->write = lease->write;
	row->since_s = lease->since_s;
	row->hold = lease->held ? lease->hold : GPUMEM_HOLD_NONE;
	strcpy(row->comm, lease->comm);
}

/* Copies the next leases. Under registry.lock. Returns: how many; 0: there are no more.
 */
static size_t rows_copy(struct lease_row *rows, struct lease_cursor *cursor)
{
	struct lease *lease = cursor->next;
	size_t n = 0;

	/* Leases that have ended count, too: looking at them takes time. */
	for (unsigned int seen = 0; lease && seen < PIECE; seen++) {
		if (lease->id > cursor->last_id)
			lease = NULL;
		else if (lease->allocation)
			row_copy(&rows[n++], lease, cursor->of_allocation);
		lease = lease ? behind(lease, cursor->of_allocation) : NULL;
	}
	cursor->next = lease;
	return n;
}

static void row_print(const struct lease_row *row, bool of_allocation, struct text *text)
{
	if (!of_allocation && row->freed)
		text_printf(text, "#%llu ", (unsigned long long)row->freed);
	else if (!of_allocation)
		text_printf(text, "%s ", row->name.text);
	text_printf(text, "%d %u %s ", row->pid, row->uid, row->write ? "w" : "r");
	text_time(text, row->since_s);
	text_printf(text, " hold=%s ", hold_names[row->hold]);
	text_add_printable(text, row->comm);
	text_printf(text, "\n");
}

/* With registry.lock held, which is let go. */
static int show_list(struct broker *broker, struct lease *first, bool of_allocation,
		     struct text *text)
{
	struct lease_cursor cursor = { .next = first,
				       .of_allocation = of_allocation,
				       .last_id = broker->leases->n_ever };
	pthread_mutex_t *lock = &broker->registry->lock;
	_cleanup_free_ struct lease_row *rows = NULL;
	size_t n;

	LL_PREPEND2(broker->leases->cursors, &cursor, le_next);
	pthread_mutex_unlock(lock);
	rows = malloc(PIECE * sizeof(*rows));
	pthread_mutex_lock(lock);
	while (rows && cursor.next) {
		n = rows_copy(rows, &cursor);
		pthread_mutex_unlock(lock);
		for (size_t i = 0; i < n; i++)
			row_print(&rows[i], of_allocation, text);
		pthread_mutex_lock(lock);
	}
	LL_DELETE2(broker->leases->cursors, &cursor, le_next);
	pthread_mutex_unlock(lock);
	return rows ? 0 : -ENOMEM;
}

int leases_show(struct broker *broker, struct token token, struct text *text)
{
	const struct allocation *allocation;

	pthread_mutex_lock(&broker->registry->lock);
	allocation = allocation_get(broker->registry, token.slot, token.generation);
	if (allocation)
		return show_list(broker, allocation->rare->leases, true, text);
	pthread_mutex_unlock(&broker->registry->lock);
	return -ESTALE;
}

int leases_show_all(struct broker *broker, struct token none, struct text *text)
{
	(void)none;
	pthread_mutex_lock(&broker->registry->lock);
	return show_list(broker, broker->leases->by_id, false, text);
}

void text_add_lease_holders(struct text *text, const struct broker *broker,
			    uint32_t device)
{
	uint64_t bytes = broker->registry->leased_on[device].freed_bytes;
	const struct lease *lease;
	const char *joint = ", by";
	unsigned int n = 0, left = HOLDERS_LOOKED_AT;

	if (!bytes)
		return;
	text_printf(text, "; %s of freed allocations are still leased", size_text(bytes));
	for (lease = broker->leases->by_id; lease && n < HOLDERS_NAMED && left--;
	     lease = lease->hh.next) {
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

/* SPDX-License-Identifier: MIT */
/*
 * Leases: other programs that map an allocation's memory. The view's interface is
 * lease_file.h.
 *
 * An open lease pins its allocation: the block neither moves nor goes back to the driver.
 * A free removes the name as usual. When its op runs, the op is parked in
 * allocation->release until the last lease has ended.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/workqueue.h"
#include "memops/reaper.h"

struct allocation;
struct broker;
struct folder;
struct lease;
struct text;
struct token;

struct lease_record;

/*
 * Opens a lease of the last broker anew, for lease_left(). Under registry.lock.
 * Returns: 0; -ENOMEM.
 */
int lease_restore(struct broker *broker, struct allocation *allocation, uint32_t index,
		  const struct lease_record *record);

struct lease_cursor;
struct lease_process;

struct leases {
	struct broker *broker;
	struct lease *by_id; /* registry.lock, like all here */
	struct lease_cursor *cursors;
	struct lease_process *processes; /* by pid */
	uint64_t n_ever;
	struct lease *left; /* of the last broker; none before it is; broker_lease_left()
			     */
	uint64_t n_changes; /* of which leases are told later */
	uint64_t n_noted;   /* the last that all of them were told of */
	bool noting;	    /* they are being told */
	struct task note;
	struct reaper reaper;
};

void leases_init(struct leases *leases, struct broker *broker);
void leases_deinit(struct leases *leases);

/*
 * At the end of the broker: leases pin no memory any more, and their programs are told.
 * No lock held.
 */
void leases_end(struct broker *broker);

/* Ends the holds of a user's leases; the leases stay. No lock held. */
void leases_end_holds(struct broker *broker, uid_t uid);

/*
 * Parks the op that frees an allocation which is leased, or was by a process that is
 * still ending. Under registry.lock. Returns: whether the op is parked.
 */
bool lease_park_release(struct allocation *allocation);

/* Called after a free has removed the allocation's name. Under registry.lock. */
void leases_note_freed(struct broker *broker, struct allocation *allocation);

/*
 * Called when the text of an allocation's leases has changed. Of more than a few leases
 * the work queue takes care, once for all changes until then. Under registry.lock.
 */
void leases_note_changed(struct broker *broker, struct allocation *allocation);

/*
 * The same for all allocations below a folder that has got another name, always by the
 * work queue: Linux locks the folders above until a rename is answered. Under
 * registry.lock.
 */
void leases_note_renamed(struct broker *broker, struct folder *folder);

/* The number of open leases. Under registry.lock. */
uint64_t leases_count(const struct broker *broker);

/*
 * Prints one line for each lease of the allocation, or of all allocations. There may be
 * thousands: registry.lock is taken for a few at a time, and no line is made meanwhile.
 * No lock held. Returns: 0; -ESTALE; -ENOMEM.
 */
int leases_show(struct broker *broker, struct token allocation, struct text *text);
int leases_show_all(struct broker *broker, struct token none, struct text *text);

/*
 * Appends `; N bytes of freed allocations are still leased, by pid 17 (python, uid 1000,
 * M bytes), ...` for a device, with holders among the oldest leases; nothing if there are
 * none. Under registry.lock.
 */
void text_add_lease_holders(struct text *text, const struct broker *broker,
			    uint32_t device);

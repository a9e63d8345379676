/* SPDX-License-Identifier: MIT */
/* A lease, for the lease*.c files alone. */
#pragma once

#include <gpumem/lease.h>

#include "base/hash.h"
#include "base/process.h"

struct allocation;
struct caller;
struct task;
struct text;

#define TICKET_BYTES 16

struct lease {
	struct broker *broker;
	struct allocation *allocation; /* NULL: the broker has ended */
	struct allocation
		*departing; /* the same after the close, while the process ends */
	uint64_t id;
	uid_t uid;
	pid_t pid;
	struct lease_process *process; /* NULL: unknown */
	struct lease *next_departing;  /* of the process */
	char comm[PROCESS_NAME_MAX];
	bool write;
	int64_t since_s;
	uint32_t record;       /* for the next broker; 0: none */
	uint64_t file, unique; /* broker_lease_open() */
	uint64_t poll;	       /* broker_lease_note_poll() */
	uint64_t node, inode;  /* broker_lease_open() */
	struct owner *user;    /* opened the lease; counted there */
	uint8_t secret[TICKET_BYTES];

	/* registry.lock */
	bool granted;
	bool closed;
	bool changed;
	enum gpumem_hold hold; /* held or waited for */
	struct op *held;       /* op of the hold, while held */
	unsigned int n_refs;
	void (*wake)(void *userdata);
	void *userdata;
	struct lease *prev, *next; /* of the allocation */
	UT_hash_handle hh;
};

/* A reader of a list of leases, between two pieces. */
struct lease_cursor {
	struct lease *next;
	bool of_allocation; /* in the list of an allocation, not of all */
	uint64_t last_id;   /* of the leases that were there at the beginning */
	struct lease_cursor *le_next;
};

/* As in the text of a lease: `none`, `r`, `w`. */
const char *hold_name(enum gpumem_hold hold);

/* Saves an open lease for the next broker; does nothing else. Under registry.lock. */
void lease_save(const struct lease *lease);

/* Tells the program to read again. Under registry.lock. */
void lease_notify(struct lease *lease);
/* Whether there is a change that the work queue has yet to tell. Under registry.lock. */
bool lease_is_untold(const struct lease *lease);

/*
 * For the next broker: of many leases the last one may not have told all of the last
 * change. Under registry.lock.
 */
void leases_tell_untold(struct allocation *allocation, struct lease *added);

/* The task that tells leases of changes that they were not told of at once. */
void leases_tell(struct task *note);

/* Drops a reference. Under registry.lock. */
void lease_unref(struct lease *lease);

/* The process of the lease has gone, with its mappings. No lock held. */
void lease_departed(struct lease *lease);

/* Adds a line to `errors` about `allocations/NAME/lease`. */
void lease_fail(struct broker *broker, const struct caller *caller, const char *name,
		int error, const char *sentence);

/*
 * Called before the lease leaves the list of its allocation, or of all leases: whoever
 * reads the list goes on behind it. Under registry.lock.
 */
void lease_leave_list(const struct lease *lease, bool of_allocation);

/*
 * Calls the function for each lease that is there at the beginning, and lets others have
 * the lock meanwhile. No lock held.
 */
void leases_walk(struct broker *broker, void (*look)(struct lease *lease, void *userdata),
		 void *userdata);

/* Appends the text of the lease file. Under registry.lock. */
void lease_print(const struct lease *lease, struct text *text);

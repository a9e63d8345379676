/* SPDX-License-Identifier: MIT */
/*
 * Leases: programs that have an allocation's memory mapped themselves. Private to
 * broker/command; the view's side of it is in broker.h.
 *
 * An open lease holds its allocation: the block neither moves nor goes back to the
 * driver. A free takes the name away as ever; its op, when its turn comes, is put aside
 * in allocation->release until the last lease has ended.
 */
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <uthash.h>

#include "base/text.h"

struct allocation;
struct broker;
struct lease;
struct op;
struct owner;

#define LEASES_OF_USER_MAX 4096

/* Processes that ended with leases: the driver may keep their mappings for a moment. */
struct reaper {
	pthread_mutex_t lock;
	struct departure *departures; /* lock */
	int wake;		      /* eventfd; -1: the thread has never been needed */
	bool ending;		      /* lock */
	pthread_t thread;
};

void reaper_init(struct reaper *reaper);
void reaper_deinit(struct reaper *reaper);

/*
 * Calls done when the process of pidfd (taken) has gone, after REAP_MS at the latest, or
 * at once when that can't be waited for.
 */
void reaper_add(struct reaper *reaper, int pidfd, void (*done)(void *userdata),
		void *userdata);

/* Lets all who wait go on now, and later ones at once. */
void reaper_end(struct reaper *reaper);

struct leases {
	struct lease *by_id; /* registry.lock, as all here */
	uint64_t n_ever;
	struct reaper reaper;
};

void leases_init(struct leases *leases);
void leases_deinit(struct leases *leases);

/* The broker ends: leases hold nothing any more, and their programs are told. No lock. */
void leases_end(struct broker *broker);

/*
 * Puts the op that frees a leased allocation aside. Under registry.lock.
 * Returns: whether it has to wait.
 */
bool lease_park_release(struct broker *broker, struct allocation *allocation,
			struct op *op);

/* The allocation's name has been taken away. Under registry.lock. */
void leases_note_freed(struct broker *broker, struct allocation *allocation);

/* How many are open. Under registry.lock. */
uint64_t leases_count(const struct broker *broker);

/* A line a lease, under registry.lock: of an allocation; of all (allocation NULL). */
void leases_show(const struct broker *broker, const struct allocation *allocation,
		 struct text *text);

/*
 * ` (N bytes of freed allocations are still leased, by pid 17 python, ...)` of a device,
 * nothing where there are none. Under registry.lock.
 */
void text_add_lease_holders(struct text *text, const struct broker *broker,
			    uint32_t device);

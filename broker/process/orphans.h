/* SPDX-License-Identifier: MIT */
/*
 * Orphans: worker processes of a broker that has died, while they end. Linux kills them
 * with their broker, but on hardware a kernel or a copy goes on for some milliseconds
 * more. Its late stores would overwrite writes of the next broker, and change bytes that
 * were already shown. So an operation waits until no orphan may write the memory that the
 * operation uses. An orphan without a request under way writes nothing.
 *
 * Memory freed by the next broker stays in use as long as an orphan has a mapping of it.
 * So each orphan counts as memory that is coming (memory/reclaim.h).
 *
 * All under registry.lock, where nothing else is said.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct allocation;
struct broker;
struct process_record;
struct work;

struct orphan {
	struct broker *broker;
	int pidfd;
	pid_t pid;
	uid_t uid;
	bool busy;
	bool mover;	  /* may write all memory */
	uint64_t last_id; /* of the allocations that were there */
	uint32_t record;  /* 0: none */
	struct orphan *prev, *next;
};

/*
 * Makes an orphan of the process of a record, for orphan_free(). The orphan then owns
 * pidfd. Returns: NULL without memory.
 */
struct orphan *orphan_new(struct broker *broker, uint32_t index,
			  const struct process_record *record, int pidfd);

/*
 * Forgets the orphan and its record: the process has ended, or nobody waits for it any
 * longer. Returns: the works that waited, for op_resume().
 */
struct work *orphan_free(struct orphan *orphan);

/* Lets those try again who wait for memory. After orphan_free(), with no lock held. */
void orphans_retry(struct broker *broker);

/* Call before a change of rights: the mappings of orphans do not change with it. */
void orphans_note_change(const struct broker *broker, struct allocation *allocation);

/*
 * Keeps a work while an orphan may write memory that the work uses. Returns: whether the
 * work is kept.
 */
bool orphans_park(struct broker *broker, struct work *work);

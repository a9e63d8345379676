/* SPDX-License-Identifier: MIT */
/*
 * One open descriptor of `lease`.
 *
 * A lease is another program's right to map an allocation of kind device or host. The
 * view makes a lease for each open descriptor of `lease`, and ends the lease when the
 * descriptor closes. Leased memory stays in place, freed or not.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct broker;
struct caller;
struct completion;
struct lease;
struct token;

/* The open file of a lease, as the next broker finds it. */
struct lease_name {
	uint64_t file;	 /* the number that the kernel has for it */
	uint64_t unique; /* of the request that opened it */
	uint64_t poll;	 /* the kernel's number of it for poll(2); 0: not yet known */
	uint64_t node;	 /* the view's id of the allocation's `lease` */
	uint64_t inode;	 /* the id that the kernel has for it, of the same file */
};

/*
 * Makes a lease for the caller's process. wake is called from any thread, perhaps under
 * the broker's locks, when broker_lease_changed() may have become true. wake may only
 * note this.
 *
 * Returns: 0; -EACCES if map= forbids the lease; -EOPNOTSUPP for kinds without leases;
 * -EMFILE when the caller's user has too many; -ESTALE; -ENOMEM.
 */
int broker_lease_open(struct broker *broker, struct token token,
		      const struct caller *caller, bool write, struct lease_name name,
		      void (*wake)(void *userdata), void *userdata,
		      struct lease **ret_lease);

/*
 * A lease that the last broker has left and broker_lease_resume() was not called for, in
 * the order of files. NULL: none.
 */
struct lease *broker_lease_left(struct broker *broker, struct lease_name *ret_name,
				uid_t *ret_uid);
void broker_lease_resume(struct lease *lease, void (*wake)(void *userdata),
			 void *userdata);

/*
 * Waits for the lease's turn in the order of uses. done's bytes are the text of the file,
 * with a KEY VALUE on each line (docs/sharing.md). Errors: -EIO, -EINTR, -ENOMEM,
 * -ESTALE.
 */
void broker_lease_read(struct lease *lease, struct completion *wait);

/*
 * Takes a hold (enum gpumem_hold): a place in the order of uses, answered at its turn.
 * GPUMEM_HOLD_NONE gives the hold up. Errors: -EINVAL, -EBUSY (a hold exists already),
 * -EACCES (for writing, on a lease for reading), -EINTR, -ESTALE, -ENOMEM.
 */
void broker_lease_hold(struct lease *lease, const struct caller *caller, uint32_t hold,
		       struct completion *wait);

/* The same for a line: `hold r`, `hold w` or `release`. */
void broker_lease_write(struct lease *lease, const struct caller *caller,
			const char *line, size_t length, struct completion *wait);

/* Whether state, name or generation have changed since the last read began. */
bool broker_lease_changed(struct lease *lease);

/* The next broker wakes those who wait in poll(2). */
void broker_lease_note_poll(struct lease *lease, uint64_t poll);

/* Ends the lease; wake is not running and not called any more. Takes NULL. */
struct lease *broker_lease_close(struct lease *lease);

/*
 * Exchanges a ticket from the lease's file for a descriptor of the memory. Only the user
 * who opened the lease, and root, may do so. The caller closes the descriptor.
 *
 * Returns: a descriptor; -EINVAL for a malformed ticket; -ENOENT for an expired ticket;
 * -EACCES for another user's; -EMFILE.
 */
int broker_redeem(struct broker *broker, const char *ticket, size_t length, uid_t uid);

/* Whether the user has open leases, whose tickets may be wanted. */
bool broker_has_leases(struct broker *broker, uid_t uid);

/* SPDX-License-Identifier: MIT */
/* One open descriptor of `lease`. */
#pragma once

#include "base/wait.h"
#include "model/access.h"
#include "model/object.h"

struct broker;

/*
 * A lease: another program's right to map an allocation of kind device or host. The view
 * makes one for each open descriptor of `lease` and ends it when the descriptor closes.
 * While an allocation has leases its memory stays where it is, freed or not.
 */
struct lease;

/*
 * Makes a lease for the caller's process. wake is called from any thread, perhaps under
 * the broker's locks, whenever broker_lease_changed() may have become true; it must only
 * note that.
 *
 * Returns: 0; -EACCES where map= says no; -EOPNOTSUPP for kinds that can't be leased;
 * -EMFILE when the caller's user has too many; -ESTALE; -ENOMEM.
 */
int broker_lease_open(struct broker *broker, struct token token,
		      const struct caller *caller, bool write,
		      void (*wake)(void *userdata), void *userdata,
		      struct lease **ret_lease);

/*
 * Waits for the lease's turn in the order of uses; done's bytes are the text of its file:
 * a KEY VALUE a line (docs/sharing.md). Errors: -EIO, -EINTR, -ENOMEM, -ESTALE.
 */
void broker_lease_read(struct lease *lease, struct wait *wait);

/*
 * A line: `hold r`, `hold w` or `release`. A hold takes a place in the order of uses and
 * is answered when its turn has come. Errors: -EINVAL, -EBUSY (it holds already), -EACCES
 * (`hold w` of a lease for reading), -EINTR, -ESTALE, -ENOMEM.
 */
void broker_lease_write(struct lease *lease, const struct caller *caller,
			const char *line, size_t length, struct wait *wait);

/* Whether state or generation have changed since the last read began. */
bool broker_lease_changed(struct lease *lease);

/* Ends the lease; wake is not running any more and will not be called. Takes NULL. */
struct lease *broker_lease_close(struct lease *lease);

/*
 * The descriptor of a lease's memory for whoever brings the ticket that its file shows:
 * the user who opened the lease, or root. The caller closes it.
 *
 * Returns: a descriptor; -EINVAL for what is no ticket; -ENOENT for one that is not good
 * any more; -EACCES for another user's; -EMFILE.
 */
int broker_redeem(struct broker *broker, const char *ticket, size_t length, uid_t uid);

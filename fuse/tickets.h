/* SPDX-License-Identifier: MIT */
/*
 * The ticket socket: whoever brings the ticket of a lease gets the lease's memory as a
 * descriptor.
 *
 * One packet in, the ticket as `lease` shows it; one packet out, a byte: 0 with the
 * descriptor (SCM_RIGHTS), or an errno. Then the connection closes. The socket never
 * takes descriptors: one of a stranger's own filesystem could hang whoever closes it.
 */
#pragma once

#include "api/broker.h"

struct tickets;

/*
 * Makes the socket at path (borrowed), mode 0666, in place of a dead one; listens from
 * the time that it returns.
 *
 * Returns: 0; a negative errno, and why says in a sentence what is wrong.
 */
int tickets_new(struct tickets **ret_tickets, const char *path, struct text *why);

/* Serves with a thread of its own. Returns: 0; -errno. */
int tickets_serve(struct tickets *tickets, struct broker *broker);

/* Stops serving and removes the socket. Takes NULL. */
struct tickets *tickets_free(struct tickets *tickets);

/*
 * Where the socket of a mount point is: in /run/gpumem for root, else in
 * $XDG_RUNTIME_DIR/gpumem or /tmp/gpumem-UID; where that is not the user's own, in
 * /tmp/gpumem-UID-XXXXXX. The folder is made.
 *
 * Returns: the path; NULL where there is no such place, and why says so, or no memory.
 */
char *tickets_path(const char *mountpoint, struct text *why);

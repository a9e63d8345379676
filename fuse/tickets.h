/* SPDX-License-Identifier: MIT */
/*
 * The ticket sockets give a lease's memory as a descriptor, in return for the lease's
 * ticket. Each user who has had a lease has a socket, until another user needs the room.
 *
 * A packet in: the ticket as shown by `lease`. A packet out: a byte, 0 with the
 * descriptor (SCM_RIGHTS), or an errno. Then the connection closes. A socket never
 * takes descriptors: the close of a descriptor of a stranger's filesystem could hang.
 */
#pragma once

#include "api/broker.h"
#include "keep/keep.h"

struct tickets;

/*
 * Makes the socket of the broker's own user at path (borrowed), in place of a dead
 * socket. The others' are named after it (base/user_socket.h). The socket listens when
 * the function returns, and the keeper has a copy.
 *
 * Returns: 0; a negative errno, and why says in a sentence what is wrong.
 */
int tickets_new(struct tickets **ret_tickets, const char *path, struct keep *keep,
		struct text *why);

/*
 * The same with the sockets of the last broker. listening is the socket of tickets_new(),
 * taken over on success.
 */
int tickets_resume(struct tickets **ret_tickets, int listening, struct keep *keep);
const char *tickets_address(const struct tickets *tickets);

/* The path that the user's socket has, or would have. Returns: 0; -ENOMEM. */
int tickets_path_of(const struct tickets *tickets, uid_t uid, struct text *ret_path);

bool tickets_has(struct tickets *tickets, uid_t uid);

/*
 * The path of the socket of a user with a lease, which is made where there is none. Any
 * user may keep the lock of the sockets' folder, and no signal ends the wait. So only the
 * thread for such requests makes sockets (transport_put_off()), and passes may_make.
 *
 * Returns: 0; -EAGAIN without may_make when there is none; -EUSERS when too many users
 * have one and leases; -errno.
 */
int tickets_of(struct tickets *tickets, uid_t uid, bool may_make, struct text *ret_path);

/* Starts the threads that serve. Returns: 0; -errno. */
int tickets_serve(struct tickets *tickets, struct broker *broker);

/*
 * Stops serving and removes the sockets, as many as can be in a second. A thread that
 * waits in a close is left to the end of the process, and touches the broker no more.
 * Takes NULL.
 */
struct tickets *tickets_free(struct tickets *tickets);

/*
 * The socket's path for a mount point: in /run/gpumem for root, else in
 * $XDG_RUNTIME_DIR/gpumem or /tmp/gpumem-UID, or in /tmp/gpumem-UID-XXXXXX if the folder
 * belongs to another user. Makes the folder.
 *
 * Returns: the path; NULL without memory, or without such a folder and with a sentence in
 * why.
 */
char *tickets_path(const char *mountpoint, struct text *why);

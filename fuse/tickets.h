/* SPDX-License-Identifier: MIT */
/*
 * The ticket socket gives a lease's memory as a descriptor, in return for the lease's
 * ticket.
 *
 * A packet in: the ticket as shown by `lease`. A packet out: a byte, 0 with the
 * descriptor (SCM_RIGHTS), or an errno. Then the connection closes. The socket never
 * takes descriptors: the close of a descriptor of a stranger's filesystem could hang.
 */
#pragma once

#include "api/broker.h"

struct tickets;

/*
 * Makes the socket at path (borrowed), mode 0666, in place of a dead socket. The socket
 * listens when the function returns.
 *
 * Returns: 0; a negative errno, and why says in a sentence what is wrong.
 */
int tickets_new(struct tickets **ret_tickets, const char *path, struct text *why);

/* The same with the socket of an earlier broker, taken over on success, and its path. */
int tickets_resume(struct tickets **ret_tickets, int listening);
const char *tickets_address(const struct tickets *tickets);
int tickets_fd(const struct tickets *tickets);

/* Starts the thread that serves. Returns: 0; -errno. */
int tickets_serve(struct tickets *tickets, struct broker *broker);

/* Stops serving and removes the socket. Takes NULL. */
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

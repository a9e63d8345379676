/* SPDX-License-Identifier: MIT */
/* Where the tickets of a user's leases are exchanged. */
#pragma once

#include <sys/types.h>

struct text;

/* The longest path of the broker's own socket; there is room for a user's number. */
#define USER_SOCKET_MAX 95

/*
 * Appends the path of a user's socket: SOCKET for the user whose broker it is, and
 * SOCKET.uUID for each other user.
 */
void text_add_user_socket(struct text *text, const char *socket, uid_t uid);

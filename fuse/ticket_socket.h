/* SPDX-License-Identifier: MIT */
/*
 * The sockets of tickets (tickets.h): where a user's programs connect, who may, and what
 * is sent back.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

/*
 * Makes the socket of a user, in place of one without a listener. Only the user and root
 * can connect. Returns: a listening socket; -errno.
 */
int ticket_socket_listen(const struct sockaddr_un *address, uid_t uid);

/*
 * Whether a connection is the user's or root's; *ret_uid: whose. The mode of the socket
 * keeps strangers out, but a broker that is not root's can't give the socket to another
 * user.
 */
bool ticket_socket_is_users(int fd, uid_t uid, uid_t *ret_uid);

/* Answers on a connection: an errno, and the descriptor (-1: none). */
void ticket_socket_reply(int to, uint8_t error, int fd);

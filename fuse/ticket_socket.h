/* SPDX-License-Identifier: MIT */
/* The sockets of tickets (tickets.h): making a socket, checking a peer, answering. */
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
 * Whether a connection is the user's or root's; *ret_uid is its uid. The mode of the
 * socket keeps strangers out, but only root's broker can give a socket to another user.
 */
bool ticket_socket_is_users(int fd, uid_t uid, uid_t *ret_uid);

/* Answers on a connection: an errno, and the descriptor (-1: none). */
void ticket_socket_reply(int to, uint8_t error, int fd);

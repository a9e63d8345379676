/* SPDX-License-Identifier: MIT */
/* Packets between the tracer and its children, which may carry a descriptor. */
#pragma once

#include "base/def.h"

#include <sys/types.h>

/* Sends a packet, with a descriptor unless `fd` is negative. Returns: 0; -errno. */
int packet_send(int socket, const void *packet, size_t size, int fd, int flags);

/*
 * Takes a packet. ret_fd gets the descriptor that came along, or -1; the caller closes
 * the descriptor. Returns: the size, `size` at most; 0 when no more comes.
 */
size_t packet_take(int socket, void *packet, size_t size, int *ret_fd, int flags);

/*
 * Waits until the socket is ready for events of poll(2), until `deadline`
 * (CLOCK_MONOTONIC, in nanoseconds) at most. Returns: 0; -ETIMEDOUT.
 */
int packet_wait(int socket, short events, uint64_t deadline);

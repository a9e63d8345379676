/* SPDX-License-Identifier: MIT */
/*
 * Makes root's sums right for processes of other users, which may not do so.
 *
 * Sums are too high when a holder of memory has died or closed a descriptor, and only
 * root may look who holds root's memory. A process of another user whose request does not
 * fit asks: the process writes a byte to the pipe `ask` in root's account. Each process
 * of root has a thread that reads them and counts. A count makes the number in the file
 * `counted` odd when it begins and even when it ends. Who counts has the lock of the file
 * `counting`, which only root can open.
 *
 * Only root's own memory is counted for others, by a thread that does nothing else: in
 * other users' accounts, these could hold up the count (others.h).
 */
#pragma once

#include "account.h"

/*
 * In a process of root: counts from now on whenever another process asks.
 * Returns: 0, or -errno.
 */
int recount_serve(int machine_fd, const struct account *own);

/*
 * In a process of another user: has root's memory counted. Does not wait where no process
 * of root is there, and nowhere for long.
 */
void recount_ask(int machine_fd);

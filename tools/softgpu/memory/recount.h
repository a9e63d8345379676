/* SPDX-License-Identifier: MIT */
/*
 * Sums of memory that are too high, made right for a process that may not do so itself.
 *
 * A holder that dies or closes a descriptor takes nothing off the sums, and only root may
 * look who still holds another user's memory. A process of another user whose request
 * does not fit asks: it writes a byte to the pipe `ask` in the account of root. A thread
 * in each process of root reads them. A count makes the number in the file `counted` odd
 * when it begins and even when it ends.
 */
#pragma once

#include "account.h"

/*
 * In a process of root: counts from now on whenever another process asks.
 * Returns: 0, or -errno.
 */
int recount_serve(int machine_fd, const struct account *own);

/*
 * In a process of another user: has the memory of all users counted, but for the accounts
 * that are locked. Does not wait where no process of root is there, and nowhere for long.
 */
void recount_ask(int machine_fd);

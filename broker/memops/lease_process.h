/* SPDX-License-Identifier: MIT */
/*
 * Processes with leases. A close(2) of a pidfd looks at all locks (fcntl(2)) on the
 * pidfd's inode, and a user can put millions there. So the leases of a process share a
 * pidfd, which is closed late (process/user_lanes.h), and until then serves again.
 */
#pragma once

#include <sys/types.h>

struct broker;
struct lease;
struct lease_process;
struct owner;

/* Under registry.lock. Returns: a reference; NULL: the process, or memory, is lacking. */
struct lease_process *lease_process_get(struct broker *broker, pid_t pid, uid_t uid);
/*
 * payer: charged for a descriptor. With the last reference the charge stays until the
 * pidfd is closed. Takes NULL, both. Under registry.lock.
 */
void lease_process_put(struct lease_process *process, struct owner *payer);

/*
 * A lease ends when its descriptor closes. For a killed process this is before the driver
 * has removed the process's mappings (some 100 ms on hardware). Memory released in
 * between would count as free too early. So the memory is released after the exit:
 * lease_departed() is called, with no lock held, when the process has ended or some time
 * has passed.
 */
void lease_await_exit(struct lease *lease);

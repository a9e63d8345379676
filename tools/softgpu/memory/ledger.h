/* SPDX-License-Identifier: MIT */
/* Physical memory, and its holders in all processes. */
#pragma once

#include "account.h"

/* A piece of physical memory: a file that lives as long as there is a holder. */
struct memory {
	int fd; /* -1 once only mappings hold it */
	int device;
	uint64_t size;
	bool is_own; /* in the account of this user */
	char name[64];
};

/*
 * Joins the machine of the options: from now on this process shares its memory.
 *
 * Returns: 0, or -errno after a sentence on stderr.
 */
int ledger_open(void);

/*
 * Makes physical memory, zeros throughout. memory->fd is the caller's.
 *
 * Returns: 0, -ENOMEM when the device has not that much left, or -errno.
 */
int ledger_create(int device, uint64_t size, struct memory *memory);

/* A descriptor of memory for other processes, the caller's. Returns: it, or -errno. */
int ledger_export(const struct memory *memory);

/*
 * Takes up memory that another process exported; fd stays the caller's.
 *
 * Returns: 0, or -EINVAL when fd is no memory of this machine.
 */
int ledger_import(int fd, struct memory *memory);

/*
 * Lets go of memory, when this process has no mapping of it left: closes the descriptor
 * and gives the bytes back if nobody else holds any.
 */
void ledger_release(struct memory *memory);

/* The bytes of a device that some process holds, looked up anew. */
uint64_t ledger_used(int device);

/*
 * For residency.h, which keeps the pages of managed memory in the same books. The lock is
 * common to all processes of this user; within a process the library's lock covers it.
 * Returns: the account of this user.
 */
struct account *ledger_lock(void);
void ledger_unlock(void);

/*
 * Under the ledger's lock: counts bytes of a device as used, which moves managed pages to
 * the host where it is full. Returns: whether they fit.
 */
bool ledger_take(int device, uint64_t size);
void ledger_give(int device, uint64_t size);

/* The same for bytes of managed memory, wherever they are, up to options.managed. */
bool ledger_take_managed(uint64_t size);

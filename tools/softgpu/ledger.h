/* SPDX-License-Identifier: MIT */
/* Physical memory, and who in which process still holds it. */
#pragma once

#include "base/def.h"
#include "options.h"

/* A piece of physical memory: a file that lives as long as anybody holds it. */
struct memory {
	int fd; /* -1 once only mappings hold it */
	int device;
	uint64_t size;
	char name[64];
};

/* What all processes of a machine add up together, in bytes. */
struct sums {
	uint64_t used[OPTIONS_MAX_DEVICES]; /* never too low */
	uint64_t managed;		    /* allocated, wherever it is; never too low */
	uint64_t clock;			    /* counts the moves of managed pages */
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
 * For residency.h, which keeps the pages of managed memory in the same books. The lock
 * is that of all processes, and within this one the library's.
 */
struct sums *ledger_lock(void);
void ledger_unlock(void);

/*
 * Opens a file of a machine's directory, of which others may have laid out anything.
 *
 * Returns: its descriptor; -EPERM when it is no plain file; -ELOOP, -ENOENT and what else
 * open answers.
 */
int ledger_open_file(int dir_fd, const char *name, int flags);

/* The machine's directory. */
int ledger_directory(void);

/* Unlinks a file of it that nobody holds. Returns: whether it did. */
bool ledger_reap(int dir_fd, const char *name);

/* Under the ledger's lock: makes the sums right. */
void ledger_scan(void);

/*
 * Under the ledger's lock: counts bytes of a device as used, which moves managed pages to
 * the host where it is full. Returns: whether they fit.
 */
bool ledger_take(int device, uint64_t size);
void ledger_give(int device, uint64_t size);

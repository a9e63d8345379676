/* SPDX-License-Identifier: MIT */
/* One user's part of a machine: files, totals and a lock that nobody else can take. */
#pragma once

#include "base/def.h"
#include "softgpu/options.h"

#include <dirent.h>

/* The sums of the processes of a user, in bytes. */
struct sums {
	uint64_t used[OPTIONS_MAX_DEVICES]; /* never too low */
	uint64_t managed;		    /* allocated, wherever it is; never too low */
	uint64_t clock;			    /* of the last move of a managed page */
};

/* Files of root's account (recount.h). */
#define RECOUNT_ASK	 "ask"
#define RECOUNT_COUNTED	 "counted"
#define RECOUNT_COUNTING "counting"

struct account {
	int fd;		  /* the directory; locked: flock(LOCK_EX) of this description */
	int sums_fd;	  /* -1: not open */
	struct sums sums; /* contents of the file `sums`, while the account is locked */
	char name[32];	  /* of the directory */
};

#define ACCOUNT_NONE                     \
	(struct account)                 \
	{                                \
		.fd = -1, .sums_fd = -1, \
	}

/*
 * The device and the size in the name of a file of physical memory. Returns: false for
 * other names.
 */
bool account_parse_memory(const char *name, int *ret_device, uint64_t *ret_size);

/* Whether a name in a machine's directory is one of an account. */
bool account_parse(const char *name, uid_t *ret_uid);

/*
 * The accounts of a machine, one after the other: directories that belong to the user in
 * the name. Of each user ACCOUNTS_OF_A_USER are found and no more, so no user can make
 * others look at any number of accounts.
 */
#define ACCOUNTS_OF_A_USER 16

struct accounts {
	DIR *dir;
	struct accounts_user *users; /* who has any, and how many were found */
	size_t n_users;
};

/* A machine that can't be read has no accounts. */
void accounts_open(struct accounts *accounts, int machine_fd);
void accounts_close(struct accounts *accounts);

/* Returns: the name, valid until the next call, or NULL at the end. ret_uid: or NULL. */
const char *accounts_next(struct accounts *accounts, uid_t *ret_uid);

/*
 * Finds or makes the account of this process's user and opens the account, locked. While
 * any copy of *ret_joined is open, a process uses the account.
 *
 * Returns: 0, -EAGAIN when the machine is no longer there, or -errno.
 */
int account_join(int machine_fd, struct account *ret, int *ret_joined);

/*
 * Opens and locks an account. lock: LOCK_NB, not to wait; 0. account_close() lets the
 * lock go.
 *
 * Returns: 0, -EWOULDBLOCK, or -errno.
 */
int account_open_locked(int machine_fd, const char *name, int lock, struct account *ret);
void account_close(struct account *account);

/* Waits for other processes of the same user, and of root. */
void account_lock(struct account *account);
void account_unlock(struct account *account);

/* Under the lock: writes the totals, for others to see before the lock is let go. */
void account_publish(struct account *account);

/* Under the lock: removes files without a holder, and counts the others. */
void account_scan(struct account *account);

/*
 * Without the lock: removes the files without a holder, and takes their sizes off the
 * sums. Has the lock for one file at a time, so nobody waits longer for the lock.
 */
void account_sweep(struct account *account);

/*
 * Under the lock: makes the file of memory or of a book, which must not be there. As long
 * as the description is open or mapped in some process, the file has a holder.
 *
 * Returns: the descriptor, or -errno.
 */
int account_create(const struct account *account, const char *name);

/*
 * Under the lock: unlinks a file without a holder. Returns: whether it was there and had
 * no holder.
 */
bool account_reap(struct account *account, const char *name);

/*
 * Opens a file of an account's directory, a plain file with a single name: a second name
 * could belong to a file elsewhere.
 *
 * Returns: the descriptor; -EPERM for any other kind of file; -ELOOP, -ENOENT and other
 * errors of open.
 */
int account_file(int dir_fd, const char *name, int flags);

/*
 * The totals of an account as told by the user. The user can't make the caller wait.
 * Returns: false where there are none.
 */
bool account_look(int machine_fd, const char *name, struct sums *ret);

/*
 * Opens the directory of an account, which must belong to the user in the name.
 *
 * flags: O_RDONLY to list it; O_PATH for its files. Returns: the descriptor, or -errno.
 */
int account_directory(int machine_fd, const char *name, int flags);

/* Whether a process uses the account, as far as this process may know. */
bool account_is_used(int machine_fd, const char *name);

/* Removes an account without processes and without memory in use. */
void account_clear(int machine_fd, const char *name);

/* The same for a locked account. */
void account_remove(int machine_fd, struct account *account);

/* Adds, up to the largest number. */
static inline void sums_add(uint64_t *to, uint64_t more)
{
	if (__builtin_add_overflow(*to, more, to))
		*to = UINT64_MAX;
}

static inline void sums_take(uint64_t *from, uint64_t less)
{
	*from -= MIN(less, *from);
}

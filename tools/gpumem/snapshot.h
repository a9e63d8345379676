/* SPDX-License-Identifier: MIT */
/*
 * A mount at one time: GPUs, users, allocations and the holders of leases.
 *
 * Files that this user may not read leave their values unknown.
 */
#pragma once

#include "mount.h"

#include <sys/types.h>

#define DEVICE_NONE    (-1) /* host memory */
#define DEVICE_UNKNOWN (-2)
#define SIZE_UNKNOWN   UINT64_MAX

struct gpu {
	unsigned int number;
	char *name, *uuid, *state;
	uint64_t used, total, held; /* bytes; or SIZE_UNKNOWN */
};

/* One who has allocations. */
struct user {
	uid_t uid;
	char *name;
};

/* What is below a folder. */
struct sums {
	struct sums *above; /* the folder that it is in; NULL: none */
	uint64_t n, size;
	int64_t written; /* the last */
};

/* An allocation, or a folder of them. */
struct allocation {
	char *name, *kind, *state, *tag, *last_write; /* NULL: unknown */
	char *holders; /* COMM(PID) of each lease; NULL: none */
	uid_t uid;
	const char *owner; /* of a struct user */
	int device;	   /* a number, or one of the above */
	uint64_t size;
	int64_t written; /* seconds since 1970 */
	struct sums *in; /* of the folder that it is in; NULL: none */
	struct sums
		*folder;   /* its own; NULL: it is an allocation. The name ends in `/` */
	unsigned int mode; /* of a folder */
	bool unread;	   /* a folder whose contents are not read */
};

struct snapshot {
	/* The caller's, for all functions below. */
	const char *user; /* only this user's allocations are wanted; NULL: all */
	bool all_folders; /* folders of this user are wanted, even in those of others */

	struct gpu *gpus;
	size_t n_gpus;
	struct user *users;
	size_t n_users;
	struct allocation *allocations;
	size_t n_allocations;
	pid_t mover; /* a process of the broker; 0: unknown */
};

/* Returns: 0; -errno, with a sentence in `why`. */
int snapshot_read(struct snapshot *snapshot, const struct mount *mount, struct text *why);
void snapshot_deinit(struct snapshot *snapshot);

/* A key of allocations' order. Returns: false for another word. */
bool snapshot_sort(struct snapshot *snapshot, const char *key);

/* Whether the word is a key of the order. */
bool snapshot_has_key(const char *key);

/* The key behind a key, around in a circle. */
const char *snapshot_next_key(const char *key);

/* Keeps only allocations of the user and of a GPU; negative: of all. Sums up what the
 * folders have of these; others than the user's with nothing in them go. */
void snapshot_filter(struct snapshot *snapshot, int gpu);

#define _cleanup_snapshot_ _cleanup_(snapshot_deinit)

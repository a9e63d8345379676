/* SPDX-License-Identifier: MIT */
/*
 * The messages in the queues of the sockets left by a keeper (keep/left.h). The keys of a
 * message's descriptors follow its head. Each socket begins with the mount point, so that
 * the next keeper knows its own sockets. The last socket ends with the number of
 * descriptors.
 */
#pragma once

#include "keep/keep.h"

#define PACK_MAX 253 /* the kernel takes so many descriptors at once */

enum pack_word {
	PACK_BEGIN = 1, /* the mount point follows */
	PACK_KEYS,
	PACK_END, /* n: descriptors in all sockets together */
};

struct pack_head {
	uint32_t version; /* 1 */
	uint32_t word;
	uint32_t n;
};

#define PACK_VERSION 1

struct keeper_config;

/* The sending side. */
struct pack {
	const struct keeper_config *config;
	int socket; /* -1: none */
	uint32_t n; /* sent */
	uint32_t n_waiting;
	struct keep_key keys[PACK_MAX];
	int fds[PACK_MAX]; /* of the caller */
};

/*
 * Sends a first socket away: fails if nobody holds sockets for the next keeper. Returns:
 * 0; -errno.
 */
int pack_begin(struct pack *pack, const struct keeper_config *config);

/* The descriptor stays the caller's, open until pack_end(). Returns: 0; -errno. */
int pack_add(struct pack *pack, struct keep_key key, int fd);

/* Returns: 0; -errno. */
int pack_end(struct pack *pack);

void pack_deinit(struct pack *pack);

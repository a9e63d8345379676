/* SPDX-License-Identifier: MIT */
/*
 * Visits: the node ids of control files. The kernel locks an inode from a write to its
 * reply, so one waiting line would hold up every other user of the file; each look-up of
 * a control file therefore answers an id of its own, with the same st_ino.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct visit;

/* The visits that the kernel has not forgotten. */
struct visits {
	pthread_mutex_t lock;
	struct visit *by_id; /* lock */
	uint64_t serial;     /* lock */
};

void visits_init(struct visits *visits);
void visits_deinit(struct visits *visits);

/* A new visit of the node, looked up once. Returns: 0; -ENOMEM. */
int visits_add(struct visits *visits, uint64_t node_id, uint64_t *ret_id);

/* The node of a visit. Returns: 0; -ESTALE. */
int visits_find(struct visits *visits, uint64_t id, uint64_t *ret_node_id);

/* The kernel dropped n look-ups. */
void visits_forget(struct visits *visits, uint64_t id, uint64_t n);

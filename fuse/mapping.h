/* SPDX-License-Identifier: MIT */
/*
 * The memory behind data files that can be mapped: a backing id of the kernel for each
 * open allocation, since the kernel wants the same id at every open.
 */
#pragma once

#include "request.h"

struct mapping;

struct mappings {
	pthread_mutex_t lock;
	struct mapping *by_token; /* lock */
	bool refused;		  /* lock: the kernel lets us map nothing */
};

void mappings_init(struct mappings *mappings);
void mappings_deinit(struct mappings *mappings);

/*
 * At an open of an allocation of kind host. Returns: the backing id; 0 where the memory
 * can't be mapped; -errno where the kernel fails this once.
 */
int mapping_get(struct view *view, fuse_req_t req, struct token token);

/* At the end of an open that got an id. */
void mapping_put(struct view *view, fuse_req_t req, struct token token);

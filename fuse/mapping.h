/* SPDX-License-Identifier: MIT */
/*
 * The memory behind data files that can be mapped. Each opened allocation has a number of
 * the kernel (backing.h), and the kernel wants the same number at every open. The broker
 * saves the number (memops/data.h), and closes it with the memory.
 */
#pragma once

#include "request.h"

struct mappings {
	pthread_mutex_t lock; /* no two opens get a number for the same memory */
	bool refused;	      /* lock: the kernel lets us map nothing */
};

void mappings_init(struct mappings *mappings);
void mappings_deinit(struct mappings *mappings);

/* After a death, before the first request: closes numbers that were not noted in time. */
void mappings_resume(struct broker *broker);

/*
 * At an open of an allocation of kind host. Returns: the number; 0 where the memory can't
 * be mapped; -errno where the kernel fails this once.
 */
int mapping_get(struct view *view, struct token token);

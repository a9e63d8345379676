/* SPDX-License-Identifier: MIT */
/* What the broker had mapped into this process: physical memory and host memory. */
#pragma once

#include "base/def.h"
#include "cuda/driver.h"

struct job;
struct mapping;
struct worker;

/* By address. Only whoever has the turn to receive looks at it. */
struct mapping_table {
	struct mapping *first;
};

int mapping_map(struct worker *worker, struct job *job, struct cuda_failure *failure);
int mapping_unmap(struct worker *worker, struct job *job, struct cuda_failure *failure);
int mapping_map_host(struct worker *worker, struct job *job,
		     struct cuda_failure *failure);
int mapping_unmap_host(struct worker *worker, struct job *job,
		       struct cuda_failure *failure);

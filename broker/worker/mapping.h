/* SPDX-License-Identifier: MIT */
/* Memory mapped into this process for the broker: physical memory and host memory. */
#pragma once

#include <pthread.h>

#include "base/def.h"
#include "cuda/driver.h"

struct job;
struct mapping;
struct worker;

/* Key: address. */
struct mapping_table {
	pthread_mutex_t lock; /* a leaf */
	struct mapping *first;
};

int mapping_map(struct worker *worker, struct job *job, struct cuda_failure *failure);
int mapping_unmap(struct worker *worker, struct job *job, struct cuda_failure *failure);
int mapping_map_host(struct worker *worker, struct job *job,
		     struct cuda_failure *failure);
int mapping_unmap_host(struct worker *worker, struct job *job,
		       struct cuda_failure *failure);

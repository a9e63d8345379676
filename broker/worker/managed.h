/* SPDX-License-Identifier: MIT */
/* Managed memory: allocation, prefetch, advice, attachment, and properties of ranges. */
#pragma once

#include "base/def.h"
#include "cuda/driver.h"

struct job;
struct worker;

/* ALLOC with WIRE_MANAGED. */
int managed_alloc(struct worker *worker, struct job *job, struct cuda_failure *failure);

int managed_prefetch(struct worker *worker, struct job *job,
		     struct cuda_failure *failure);
int managed_advise(struct worker *worker, struct job *job, struct cuda_failure *failure);
int managed_attach(struct worker *worker, struct job *job, struct cuda_failure *failure);
int managed_range(struct worker *worker, struct job *job, struct cuda_failure *failure);

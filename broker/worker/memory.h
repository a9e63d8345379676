/* SPDX-License-Identifier: MIT */
/*
 * Memory of this process's contexts: ALLOC, FREE, and MEMORY, the amount of free memory.
 */
#pragma once

#include "base/def.h"
#include "cuda/driver.h"

struct job;
struct worker;

int memory_alloc(struct worker *worker, struct job *job, struct cuda_failure *failure);
int memory_free(struct worker *worker, struct job *job, struct cuda_failure *failure);
int memory_info(struct worker *worker, struct job *job, struct cuda_failure *failure);

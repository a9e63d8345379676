/* SPDX-License-Identifier: MIT */
/* Transfers: READ, WRITE, COPY, FILL. Each is finished when its function returns. */
#pragma once

#include "base/def.h"
#include "cuda/driver.h"

struct job;
struct worker;

int transfer_read(struct worker *worker, struct job *job, struct cuda_failure *failure);
int transfer_write(struct worker *worker, struct job *job, struct cuda_failure *failure);
int transfer_copy(struct worker *worker, struct job *job, struct cuda_failure *failure);
int transfer_fill(struct worker *worker, struct job *job, struct cuda_failure *failure);

/* SPDX-License-Identifier: MIT */
/* Managed memory to a file and back: SAVE, RESTORE. By the CPU, with no driver call. */
#pragma once

#include "base/def.h"
#include "cuda/driver.h"

struct job;
struct worker;

int rescue_save(struct worker *worker, struct job *job, struct cuda_failure *failure);
int rescue_restore(struct worker *worker, struct job *job, struct cuda_failure *failure);

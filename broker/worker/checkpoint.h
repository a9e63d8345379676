/* SPDX-License-Identifier: MIT */
/*
 * SAVE and RESTORE: copy managed memory to a file and back, by the CPU, without driver
 * calls.
 */
#pragma once

#include "base/def.h"
#include "cuda/driver.h"

struct job;
struct worker;

/*
 * Starts the thread that serves WIRE_URGENT_FD. The other threads may all hang in the
 * driver when the memory has to be saved. Exits on failure.
 */
void rescue_listen(struct worker *worker);

int rescue_save(struct worker *worker, struct job *job, struct cuda_failure *failure);
int rescue_restore(struct worker *worker, struct job *job, struct cuda_failure *failure);

/* SPDX-License-Identifier: MIT */
/* Managed memory to a file and back: SAVE, RESTORE. By the CPU, with no driver call. */
#pragma once

#include "base/def.h"
#include "cuda/driver.h"

struct job;
struct worker;

/*
 * Starts the thread that serves WIRE_URGENT_FD: the others may all hang in the driver when
 * the memory is to be saved. Exits where it can't.
 */
void rescue_listen(struct worker *worker);

int rescue_save(struct worker *worker, struct job *job, struct cuda_failure *failure);
int rescue_restore(struct worker *worker, struct job *job, struct cuda_failure *failure);

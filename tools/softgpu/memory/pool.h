/* SPDX-License-Identifier: MIT */
/* Memory pools and stream-ordered allocation. */
#pragma once

#include "softgpu/call.h"

struct context;
struct range;

/* Takes a piece of a pool back at once. */
void pool_free(struct range *range);

/* Gives back memory of the pools above their release threshold. */
void pools_trim(void);

/* Gives back all memory of a dead context's default pool. */
void pools_end_context(const struct context *context);

/* The handle of the pool that a range came from. */
CUmemoryPool pool_of_range(const struct range *range);

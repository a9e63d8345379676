/* SPDX-License-Identifier: MIT */
/* Memory pools and stream-ordered allocation. */
#pragma once

#include "softgpu/call.h"

struct context;
struct range;

/* Takes a piece of a pool back at once. */
void pool_free(struct range *range);

/* Gives back what the pools hold over their release threshold. */
void pools_trim(void);

/* Gives back all that a dead context's default pool holds. */
void pools_end_context(const struct context *context);

/* The handle of the pool that a range came from. */
CUmemoryPool pool_of_range(const struct range *range);

/* SPDX-License-Identifier: MIT */
/* Helpers of the tests of managed memory. */
#pragma once

#include "conform.h"

/* Managed memory for all streams. */
CUdeviceptr managed_new(size_t size);

/* Skips the test where device 0 lacks concurrent managed access. */
void managed_need_concurrent(void);

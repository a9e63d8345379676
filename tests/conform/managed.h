/* SPDX-License-Identifier: MIT */
/* Helpers of the tests of managed memory. */
#pragma once

#include "conform.h"

/* Managed memory for all streams. */
CUdeviceptr managed_new(size_t size);

/* Skips the test where device 0 lacks concurrent managed access. */
void managed_need_concurrent(void);

/* Managed memory on a device where managed pages move; else skips the test. */
CUdeviceptr managed_begin(size_t size);

/* Skips the test where the driver knows no locations. */
void managed_need_locations(void);

/* The driver's number about a range. */
int managed_number(CUmem_range_attribute attribute, CUdeviceptr at, size_t size);

/* Whether a call has refused a device or a location: drivers differ in which of the two
 * results they return. */
bool managed_refuses(CUresult result);

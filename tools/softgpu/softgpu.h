/* SPDX-License-Identifier: MIT */
/*
 * Exports of the software GPU beyond CUDA, for tests that look at the pages of managed
 * memory: found with dlsym() in the library, and on hardware not found.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * The program's own loads or stores of managed memory, which the library can't see: the
 * pages move as if they had faulted.
 */
__attribute__((visibility("default"))) void softgpu_host_access(const void *at,
								size_t length, int write);

/*
 * Where the page of 2 MiB is that holds an address: bit N for device N, bit 16 + N for
 * the host's NUMA node N. 0: nowhere yet, or no managed memory.
 */
__attribute__((visibility("default"))) uint32_t softgpu_where(const void *at);

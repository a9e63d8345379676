/* SPDX-License-Identifier: MIT */
/* Places of managed pages, and the accesses that move pages. */
#pragma once

#include "conform.h"

#define DEVICE(n) (1U << (n))
#define NODE(n)	  (1U << (16 + (n)))
#define CPU	  CU_DEVICE_CPU
#define PAGE	  (2 * MIB)

/* The places of the page: bits of DEVICE() and NODE(). */
uint32_t where(CUdeviceptr at);

void host_access(CUdeviceptr at, size_t length, bool write);
void advise(CUdeviceptr at, size_t size, CUmem_advise advice, CUdevice device);

/* Runs a kernel of one thread on the current device; the kernel stores or loads a word.
 */
CUresult kernel_run(const char *name, CUstream stream, void **params);
CUresult kernel_write(CUdeviceptr at, CUstream stream);

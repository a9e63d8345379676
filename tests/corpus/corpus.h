/* SPDX-License-Identifier: MIT */
/*
 * Kernels as nvcc compiles them, run on a driver and compared with what the host
 * computes.
 *
 * The compiled kernels are in the directory that GPUMEM_KERNELS names. A torture kernel
 * has the form
 *
 *	KERNEL(const uint64_t *in, uint64_t *out, uint32_t n)
 *
 * with CORPUS_INPUTS numbers read and a number of its own written by each of n threads.
 * What it writes is compared bit for bit with the host's own function; and its hash goes
 * to the file named by GPUMEM_CORPUS_WRITE, or is compared with the line of the file
 * named by GPUMEM_CORPUS_COMPARE, so that two machines can be compared.
 */
#pragma once

#include "conform.h"

#define CORPUS_INPUTS 3
#define CORPUS_N      2048

/* Suites of programs of the corpus. */
#define CORPUS(name) \
	TestSuite(name, .init = conform_init, .fini = conform_fini, .timeout = 100)

/* A file of the directory, as text; the caller frees it. */
char *corpus_read(const char *name);

/* A function of a module that is loaded from FILE.ptx. */
CUfunction corpus_kernel(const char *file, const char *name);

/* Device memory with these bytes, or zeros for NULL; and its bytes again. */
CUdeviceptr corpus_put(const void *bytes, size_t size);
void corpus_get(void *bytes, CUdeviceptr at, size_t size);

/* Runs a kernel and waits for it. */
void corpus_run(CUfunction function, unsigned int grid, unsigned int block,
		void **params);

/* What a torture kernel is to write for one thread. */
typedef void corpus_host(const uint64_t *in, uint64_t *out);

/*
 * Runs a torture kernel of n_out numbers a thread. Inputs are random bits and, as often,
 * values that are special to the kind of numbers.
 */
enum corpus_kind {
	CORPUS_INTEGERS,
	CORPUS_SINGLES,
	CORPUS_DOUBLES,
	CORPUS_HALVES,
	CORPUS_BFLOATS,
};
void corpus_torture(const char *file, const char *name, enum corpus_kind kind,
		    size_t n_out, corpus_host *host);

/* The inputs themselves: n of them. */
void corpus_fill(uint64_t *in, size_t n, enum corpus_kind kind);

/* Notes a result under a name, in the files of hashes. */
void corpus_note(const char *name, const void *bytes, size_t size);

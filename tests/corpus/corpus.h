/* SPDX-License-Identifier: MIT */
/*
 * Kernels as nvcc compiles them, run on a driver and compared with results of the host.
 *
 * GPUMEM_KERNELS names the folder of compiled kernels. A torture kernel has the form
 *
 *	KERNEL(const uint64_t *in, uint64_t *out, uint32_t n)
 *
 * Each of n threads reads CORPUS_INPUTS numbers and writes its own number. The numbers
 *are compared bit for bit with those of a function on the host. To compare two machines,
 *the hash of all numbers is written to the file GPUMEM_CORPUS_WRITE on the first machine,
 *and compared with the line of the file GPUMEM_CORPUS_COMPARE on the second.
 */
#pragma once

#include "conform.h"

#define CORPUS_INPUTS 3
#define CORPUS_N      2048

/* Suites of programs of the corpus. */
#define CORPUS(name) \
	TestSuite(name, .init = conform_init, .fini = conform_fini, .timeout = 100)

/* Reads a file of the folder. Returns: its text, to be freed. */
char *corpus_read(const char *name);

/* Loads FILE.ptx as a module. Returns: a function of this module. */
CUfunction corpus_kernel(const char *file, const char *name);

/* Makes device memory with these bytes, or zeros for NULL; reads the bytes back. */
CUdeviceptr corpus_put(const void *bytes, size_t size);
void corpus_get(void *bytes, CUdeviceptr at, size_t size);

/* Runs a kernel and waits for it. */
void corpus_run(CUfunction function, unsigned int grid, unsigned int block,
		void **params);

/* Computes the number that a thread of a torture kernel must write. */
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

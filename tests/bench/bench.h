/* SPDX-License-Identifier: MIT */
/*
 * Helpers of the benchmarks: the two mounts to compare, and series of figures.
 *
 * A benchmark measures gpumem and its rival in turns, round after round in the same run,
 * and prints medians and their ratio. Absolute figures vary between runs; ratios of
 * figures from the same run do not. Nothing is asserted. A failure ends the program with
 * a sentence.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BENCH_ROUNDS_MAX 1024

struct series {
	double values[BENCH_ROUNDS_MAX];
	size_t n;
};

/* A daemon and its mount. */
struct mount {
	char path[64];
	pid_t pid;
};

double now_s(void);

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

void series_add(struct series *series, double value);
double series_median(const struct series *series);

/* Prints a figure: NAME MEDIAN UNIT [SMALLEST..LARGEST]. */
void series_print(const char *name, const struct series *series, const char *unit);

/* Prints the ratio of two medians, as large is better or small is better is read. */
void ratio_print(const char *what, const struct series *ours,
		 const struct series *theirs);

/* The driver to measure: GPUMEM_DRIVER, else a software machine of this process's own. */
const char *bench_driver(void);

/* The driver's library, for calls past the broker; GPUMEM_LIBRARY for the software GPU.
 */
const char *bench_library(void);

/* Start the broker (GPUMEMD) or the empty daemon (GPUMEM_EMPTY); unmounted at exit. */
void mount_broker(struct mount *mount);
void mount_keeper(struct mount *mount); /* the same with --keep */
void mount_empty(struct mount *mount);

/* Opens PATH below the mount. */
int mount_open(const struct mount *mount, const char *path, int flags);

/* Writes all of text to a control file's descriptor. */
void command(int fd, const char *text);

/* The number in environment variable `name`, or `otherwise`. */
size_t bench_number(const char *name, size_t otherwise);

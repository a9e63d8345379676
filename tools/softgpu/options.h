/* SPDX-License-Identifier: MIT */
/*
 * The settings of the software GPU, in the environment variable GPUMEM_SOFTGPU:
 * KEY=VALUE joined by ':'. Sizes take K, M, G, T (powers of 1024), times ns, us, ms, s.
 *
 *	devices=N         how many devices, 0 to 16 (1); with 0 cuInit finds none
 *	memory=SIZE       memory of each, a multiple of 2 MiB (4G)
 *	name=TEXT         the answer of cuDeviceGetName (gpumem software GPU)
 *	capability=X.Y    compute capability (9.0)
 *	version=X.Y       of CUDA, as told by the driver (13.0)
 *	machine=ID        processes with the same ID share devices and their memory
 *	                  (default; of an ordinary user default-UID); letters, digits,
 *	                  '_', '.', '-'
 *	directory=PATH    where memory is kept, a tmpfs with room for all touched memory
 *	                  (/dev/shm)
 *	concurrent=BOOL   concurrent managed access of all devices, 0 or 1 (1)
 *	managed=SIZE      the most managed memory of all processes together (64G)
 *	nodes=N           NUMA nodes of the host, 1 to 16 (as many as the host has)
 *	fail=RULE         CALL@WHEN=RESULT: these calls answer RESULT, and do nothing.
 *	                  A sticky result poisons the process
 *	delay=RULE        CALL@WHEN=TIME: work that the call queues on a stream, or else
 *	                  the return, comes so much later
 *	kill=RULE         CALL@WHEN: the process dies by SIGKILL in the call
 *	control=PATH      a file with more fail=, delay= and kill= rules, a line each or
 *	                  joined by ':', looked at on every call: may be written,
 *	                  changed and removed at any time; a change makes the rules
 *	                  count from the start and ends all delays
 *
 * CALL is an exported symbol; WHEN selects among this process's calls: N the N-th
 * (from 1), N+ the N-th and all after, N/M the N-th and every M-th after it, * all.
 * RESULT is a name of cuda.h or a number.
 *
 *	devices=2:memory=8G:fail=cuMemCreate@3=CUDA_ERROR_OUT_OF_MEMORY
 *	delay=cuMemcpyHtoDAsync_v2@*=50ms:machine=test-1
 *
 * A setting that can't be understood makes cuInit fail, with a sentence on stderr.
 */
#pragma once

#include "base/def.h"

#define OPTIONS_VARIABLE    "GPUMEM_SOFTGPU"
#define OPTIONS_MAX_DEVICES 16
#define OPTIONS_MAX_NODES   16
#define OPTIONS_GRANULARITY ((uint64_t)2 << 20)

struct options {
	int n_devices;
	uint64_t memory;
	uint64_t managed;
	int n_nodes;
	bool concurrent;
	bool eager; /* CUDA's own variable: functions are loaded with their module */
	int capability_major;
	int capability_minor;
	int version; /* 13000 is 13.0 */
	char name[128];
	char machine[64];
	char directory[256];
	char control[1024];
};

extern struct options options;

/*
 * Reads the environment variable into options and hands its rules to inject.h. Only the
 * first call does.
 *
 * Returns: 0, or -EINVAL after a sentence on stderr.
 */
int options_read(void);

/*
 * Parses a whole string as a count, a size or a time in nanoseconds.
 *
 * Returns: 0, or -EINVAL and ret untouched.
 */
int options_parse_count(const char *text, uint64_t *ret);
int options_parse_time(const char *text, uint64_t *ret);

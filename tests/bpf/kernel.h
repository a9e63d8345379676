/* SPDX-License-Identifier: MIT */
/*
 * What stands for the kernel when the BPF programs run in a test: one CPU, maps in
 * memory, threads that take turns when the test says so.
 */
#pragma once

#include "kernel/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Forgets everything. */
void kernel_reset(void);

/* The thread that runs from here on: of a process with that pid and time of start. */
void kernel_run(uint32_t pid, uint32_t tid, uint64_t start);

extern uint64_t kernel_now;
extern uint64_t kernel_cookie; /* of the probe that is hit */
extern bool kernel_ring_is_full;
extern size_t kernel_max_entries; /* of every hash, if not 0 */

/* The last record, and how many there were. */
extern union kernel_record {
	struct record record;
	struct record_text text;
	struct record_exit exit;
} kernel_last;
extern size_t kernel_n_records;

/* How many entries a map has; the sum of what `value` says of each. */
uint64_t kernel_sum(const void *map,
		    uint64_t (*value)(const void *key, const void *value));

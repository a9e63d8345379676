/* SPDX-License-Identifier: MIT */
/*
 * A fake kernel for BPF programs in a test: a single CPU, maps in memory, and threads
 * that switch when the test says so.
 */
#pragma once

#include "kernel/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Forgets everything. */
void kernel_reset(void);

/* Switches to a thread of the process with this pid and start time. */
void kernel_run(uint32_t pid, uint32_t tid, uint64_t start);

extern uint64_t kernel_now;
extern uint64_t kernel_cookie; /* of the probe under way */
extern bool kernel_ring_is_full;
extern size_t kernel_max_entries; /* of every hash, if not 0 */

/* The last record, and how many there were. */
extern union kernel_record {
	struct record record;
	struct record_text text;
	struct record_exit exit;
} kernel_last;
extern size_t kernel_n_records;

/* Returns: the sum of value() over all entries of a map. */
uint64_t kernel_sum(const void *map,
		    uint64_t (*value)(const void *key, const void *value));

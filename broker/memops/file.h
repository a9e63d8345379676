/* SPDX-License-Identifier: MIT */
/* Loads of files into allocations, and saves of allocations to files. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "process/file_process.h"

struct allocation;
struct broker;
struct caller;
struct op;
struct range;
struct refusal;

struct file_spec {
	const char *path;	/* absolute; copied */
	struct file_id file_id; /* of a load */
	uint64_t file_offset;	/* of a load */
	bool to_end;		/* a load of all that the file has from there on */
	bool save;
	bool wait; /* somebody waits for the end, and a signal may end the wait */
};

/*
 * Makes an op that moves bytes between a range of the allocation and a file, in the
 * worker of the caller's owner. ready: ops that were made ready, also on failure; call
 * op_start() with them. Under registry.lock. Returns: 0; -EXDEV, -EACCES, -EMFILE,
 * -ENOMEM with a refusal.
 */
int file_op_new(struct broker *broker, const struct caller *caller,
		struct allocation *allocation, const struct range *range,
		const struct file_spec *spec, struct op **ret_op, struct op **ready,
		struct refusal *refusal);

/*
 * How far the oldest load or save of an allocation is that runs. Under registry.lock.
 * Returns: false when none runs.
 */
bool file_progress(const struct allocation *allocation, uint64_t *ret_done,
		   uint64_t *ret_total);

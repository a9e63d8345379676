/* SPDX-License-Identifier: MIT */
/* A launch, and what is checked before anything is asked. */
#pragma once

#include "control/launch_line.h"
#include "kernels/module_use.h"
#include "op/op.h"

struct command;

struct launch {
	struct op op;
	struct launch_line line;
	struct module_use use;
	uint8_t *payload;
	char kernel[2 * NAME_MAX_LENGTH + 2]; /* for sentences: module/function */
	char stream[NAME_MAX_LENGTH + 1];
	uint64_t elapsed_ns;
	uint32_t n_resets; /* of its worker when it was queued */
	bool counted;	   /* in its stream's n_sent */
};

/* What is checked, and where it is refused. */
struct check {
	struct command *command;
	struct launch *launch;
	int found; /* what finding the kernel returned */
	struct refusal refusal;
};

#define check_refuse(check, ...) refuse(&(check)->refusal, __VA_ARGS__)

/* The arguments against the kernel's own parameters. Returns: 0; negative, refused. */
int launch_check_params(struct check *check);

/* Grid, block and shared memory against the device's. Returns: 0; negative, refused. */
int launch_check_limits(struct check *check);

/*
 * Adds what the arguments name as uses: all of it, since a kernel gets an address and no
 * end. As check_allocation(). Returns: whether all are there.
 */
bool launch_add_uses(struct check *check);

/* Notes the time of what it writes. Under registry.lock. */
void launch_note_written(struct launch *launch);

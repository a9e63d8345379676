/* SPDX-License-Identifier: MIT */
/*
 * What the modes have in common: each is one struct output, called by the tracer.
 */
#pragma once

#include "decode.h"
#include "function.h"
#include "kernel/record.h"
#include "options.h"
#include "probes.h"

#include <stdio.h>

struct mounts;
struct symbols;

struct tracer {
	struct options options;
	struct wanted wanted;
	struct probes probes;
	struct libraries libraries;
	struct functions *functions;
	struct mounts *mounts;
	struct symbols *symbols; /* with -s */
	uint64_t start;		 /* CLOCK_MONOTONIC, in nanoseconds */
	uint64_t start_boot;	 /* CLOCK_BOOTTIME */
	int64_t to_wall_ns;	 /* what makes of it nanoseconds since 1970 */
	const struct output *output;
	void *state;	       /* the output's own */
	FILE *file;	       /* where it goes: stdout, or --chrome's */
	bool write_failed;     /* some of it did not get there, which has been said */
	uint64_t lost[N_LOST]; /* what the output has been told of */
	bool someone_ended;    /* so that processes_bury() has something to do */
	struct process *ended; /* those that have been buried, where they are kept */
	size_t n_ended;
};

struct held;

struct output {
	/* Each may be NULL. Returns of begin: 0, or -errno with a sentence. */
	int (*begin)(struct tracer *tracer, struct text *why);
	void (*event)(struct tracer *tracer, const struct record *record);
	/* something was lost, `n` of it since the last time */
	void (*lost)(struct tracer *tracer, enum lost what, uint64_t n);
	/* a process has ended, and held this */
	void (*buried)(struct tracer *tracer, const struct process *process,
		       const struct held *held, size_t n);
	/* every --summary SECONDS or the like */
	void (*interval)(struct tracer *tracer);
	/* the last words; frees the state */
	void (*end)(struct tracer *tracer);
	bool wants_events;  /* records of calls, not only of the ends of processes */
	bool keeps_ended;   /* tracer.ended is of use */
	bool wants_counted; /* copies and launches are counted where they are not shown */
	double interval_s;  /* unless the options say otherwise; 0: none */
};

/* Hands on what has been written so far. The first time that it can't be, it says so on
 * stderr. Returns: whether all has got to its file until now. */
bool output_flush(struct tracer *tracer);

/* The same for the last of it; the file is closed. */
bool output_close(struct tracer *tracer);

extern const struct output output_chrome;
extern const struct output output_json;
extern const struct output output_leaks;
extern const struct output output_live;
extern const struct output output_summary;
extern const struct output output_top;

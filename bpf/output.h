/* SPDX-License-Identifier: MIT */
/*
 * The interface of modes: each mode is a struct output, called by the tracer.
 */
#pragma once

#include "decode.h"
#include "function.h"
#include "kernel/record.h"
#include "options.h"
#include "probes.h"
#include "user.h"

#include <stdio.h>

struct imports;
struct mounts;
struct symbols;

struct tracer {
	struct options options;
	struct wanted wanted;
	struct probes probes;
	struct libraries libraries;
	struct traced_users users;
	struct functions *functions;
	struct mounts *mounts;
	struct imports *imports;
	struct symbols *symbols; /* with -s */
	uint64_t start;		 /* CLOCK_MONOTONIC, in nanoseconds */
	uint64_t start_boot;	 /* CLOCK_BOOTTIME */
	int64_t to_wall_ns;	 /* added to CLOCK_MONOTONIC: nanoseconds since 1970 */
	const struct output *output;
	void *state;	       /* the output's own */
	FILE *file;	       /* stdout, or the file of --chrome */
	bool write_failed;     /* a write failed, and the user has been told */
	uint64_t lost[N_LOST]; /* counts that the mode has been told */
	uint64_t until;	       /* of the records to look at this time */
	bool someone_ended;    /* processes_bury() has something to do */
	struct process *ended; /* ended processes, if the mode keeps them */
	size_t n_ended;
};

struct held;

struct output {
	/* Each may be NULL. Returns of begin: 0, or -errno with a sentence. */
	int (*begin)(struct tracer *tracer, struct text *why);
	void (*event)(struct tracer *tracer, const struct record *record);
	/* `n` more things were lost since the last call */
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

/* Flushes the output. The first failure is printed to stderr. Returns: whether everything
 * has been written until now. */
bool output_flush(struct tracer *tracer);

/* Flushes and closes the output. Returns: as output_flush(). */
bool output_close(struct tracer *tracer);

extern const struct output output_chrome;
extern const struct output output_json;
extern const struct output output_leaks;
extern const struct output output_live;
extern const struct output output_summary;
extern const struct output output_top;

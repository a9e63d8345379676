/* SPDX-License-Identifier: MIT */
/*
 * Jobs that wait run by turns of their payers. Long jobs are the transfers that keep a
 * thread and the GPU busy for longer than the copy of a few pages does.
 *
 * Only some threads run long jobs, so a short job never waits for the end of a long one.
 * While transfers of several payers come, a long job is done in pieces: after each piece
 * it stands at the end of its payer's jobs, and the payers take turns. The pieces of a
 * single payer are so large that they cost no time.
 *
 * Short jobs run with the turn in hand (pool.c).
 *
 * All under the pool's lock, but for job_is_short(), job_is_long() and the pieces of a job
 * that runs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct job;

struct waiting_jobs {
	struct job *payers; /* the first job of each payer that has any, in turn */
	unsigned int n;	    /* jobs */
};

void waiting_jobs_push(struct waiting_jobs *waiting, struct job *job);

/* Takes a job of the payer whose turn has come. Returns: NULL when no job waits. */
struct job *waiting_jobs_pop(struct waiting_jobs *waiting);

struct long_jobs {
	struct waiting_jobs waiting;
	unsigned int n_running;
	uint32_t payer;	    /* of the last transfer */
	int64_t shared_ms;  /* clock_ms() when the payer last changed; 0: never */
};

/* Whether a job usually takes no longer than to wake a thread. */
bool job_is_short(const struct job *job);

bool job_is_long(const struct job *job);

/* Notes who pays for a job that was received. */
void long_jobs_note(struct long_jobs *jobs, const struct job *job);

/* Jobs that wait and could run now. */
unsigned int long_jobs_ready(const struct long_jobs *jobs);

/* Whether a job that was received may run now, before all that wait. */
bool long_jobs_pass(const struct long_jobs *jobs);

/* As waiting_jobs_pop(). Returns: NULL when no long job may run now. */
struct job *long_jobs_pop(struct long_jobs *jobs);

/* Counts a thread that runs a long job; change is 1 or -1. */
void long_jobs_count(struct long_jobs *jobs, int change);

/* The most bytes that a long job may now move at a time. */
uint64_t long_jobs_piece(const struct long_jobs *jobs);

/* Cuts the request to a piece of that size; the rest comes later. */
void job_cut(struct job *job, uint64_t piece);

/* Goes on to the rest, all of it. Returns: false when there is none. */
bool job_go_on(struct job *job);

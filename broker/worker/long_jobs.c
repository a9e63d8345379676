/* SPDX-License-Identifier: MIT */
#include "worker/long_jobs.h"

#include "base/clock.h"
#include "protocol/wire.h"
#include "worker/worker.h"

#define LONG_BYTES 65536u
/* Of the threads that a pool begins with (pool.c), others are left for short jobs. */
#define N_RUNNING_MAX 4
/*
 * Some 50 µs of a data centre GPU's memory, and some 3 ms. The size of a pattern divides
 * a piece, so a fill goes on with whole patterns.
 */
#define PIECE	    ((uint64_t)64 << 20)
#define PIECE_ALONE ((uint64_t)4 << 30)
/* To zero more takes longer than to wake a thread. */
#define SHORT_ALLOC ((uint64_t)64 << 20)
/* While transfers of two payers come at shorter intervals than this, jobs are cut small.
 */
#define SHARED_MS 1000

/* ---- the payers in turn ---- */

/* Appends a payer: the first of its jobs. */
static void payers_append(struct waiting_jobs *waiting, struct job *first)
{
	struct job **end = &waiting->payers;

	while (*end)
		end = &(*end)->next_payer;
	first->next_payer = NULL;
	*end = first;
}

void waiting_jobs_push(struct waiting_jobs *waiting, struct job *job)
{
	struct job *first = waiting->payers;

	while (first && first->request.payer != job->request.payer)
		first = first->next_payer;
	job->next = NULL;
	job->last = job;
	waiting->n++;
	if (first) {
		first->last->next = job;
		first->last = job;
	} else {
		payers_append(waiting, job);
	}
}

struct job *waiting_jobs_pop(struct waiting_jobs *waiting)
{
	struct job *job = waiting->payers, *next;

	if (!job)
		return NULL;
	waiting->payers = job->next_payer;
	waiting->n--;
	next = job->next;
	if (next) {
		next->last = job->last;
		payers_append(waiting, next);
	}
	return job;
}

/* ---- short jobs ---- */

bool job_is_short(const struct job *job)
{
	const struct wire_request *request = &job->request;

	switch (request->op) {
	case WIRE_READ:
	case WIRE_WRITE:
	case WIRE_COPY:
	case WIRE_FILL:
		return !(request->flags & (WIRE_BY_CPU | WIRE_STAY));
	case WIRE_ALLOC:
		return !(request->flags & WIRE_MANAGED) && request->length <= SHORT_ALLOC;
	case WIRE_FREE:
	case WIRE_LAUNCH:
		return true;
	default:
		return false;
	}
}

/* ---- long jobs ---- */

bool job_is_long(const struct job *job)
{
	const struct wire_request *request = &job->request;

	/* The requests of a user's stream keep their order (stream.h). */
	return wire_op_has_payer(request->op) && !request->stream &&
	       request->length + job->rest > LONG_BYTES;
}

void long_jobs_note(struct long_jobs *jobs, const struct job *job)
{
	const struct wire_request *request = &job->request;

	if (!wire_op_has_payer(request->op) || request->payer == jobs->payer)
		return;
	jobs->payer = request->payer;
	jobs->shared_ms = clock_ms();
}

unsigned int long_jobs_ready(const struct long_jobs *jobs)
{
	return MIN(jobs->waiting.n, N_RUNNING_MAX - jobs->n_running);
}

bool long_jobs_pass(const struct long_jobs *jobs)
{
	return !jobs->waiting.n && jobs->n_running < N_RUNNING_MAX;
}

struct job *long_jobs_pop(struct long_jobs *jobs)
{
	return long_jobs_ready(jobs) ? waiting_jobs_pop(&jobs->waiting) : NULL;
}

void long_jobs_count(struct long_jobs *jobs, int change)
{
	jobs->n_running += (unsigned int)change;
}

/* ---- pieces ---- */

uint64_t long_jobs_piece(const struct long_jobs *jobs)
{
	bool shared = jobs->shared_ms && clock_ms() - jobs->shared_ms < SHARED_MS;

	return shared ? PIECE : PIECE_ALONE;
}

void job_cut(struct job *job, uint64_t piece)
{
	struct wire_request *request = &job->request;

	if (request->length <= piece)
		return;
	job->rest = request->length - piece;
	request->length = piece;
}

bool job_go_on(struct job *job)
{
	struct wire_request *request = &job->request;

	if (!job->rest)
		return false;
	request->address += request->length;
	if (request->op == WIRE_COPY)
		request->source += request->length;
	request->length = job->rest;
	job->rest = 0;
	/* Another thread may go on, on its own stream. */
	job->stream = NULL;
	return true;
}

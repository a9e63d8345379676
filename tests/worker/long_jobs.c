/* SPDX-License-Identifier: MIT */
/* The turns of payers at long jobs, and pieces. */
#include "worker/long_jobs.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "worker/worker.h"

#define MIB ((uint64_t)1 << 20)

static struct job job_of(uint32_t payer, uint64_t length)
{
	return (struct job){ .request = { .op = WIRE_COPY,
					  .address = 16 * MIB,
					  .source = 1024 * MIB,
					  .length = length,
					  .payer = payer } };
}

Test(long_jobs, are_transfers_of_more_than_a_few_pages)
{
	struct job job = job_of(1, 65537);

	cr_assert(job_is_long(&job));
	job.request.length = 65536;
	cr_assert(not(job_is_long(&job)));
	job = job_of(1, 65537);
	job.request.stream = 1;
	cr_assert(not(job_is_long(&job)));
	job = job_of(1, 65537);
	job.request.op = WIRE_PREFETCH;
	cr_assert(not(job_is_long(&job)));
}

/* So a pair of alloc and free wakes no thread of a worker that looks. */
Test(long_jobs, are_not_allocations_and_frees)
{
	struct job job = { .request = { .op = WIRE_ALLOC, .length = MIB } };

	cr_assert(job_is_short(&job));
	job.request.flags = WIRE_ASYNC;
	cr_assert(job_is_short(&job));
	job.request.length = 1024 * MIB;
	cr_assert(not(job_is_short(&job)), "the zeroing takes long");
	job.request = (struct wire_request){ .op = WIRE_FREE };
	cr_assert(job_is_short(&job));
	job.request = (struct wire_request){ .op = WIRE_ALLOC,
					     .flags = WIRE_MANAGED,
					     .length = MIB };
	cr_assert(not(job_is_short(&job)), "the driver makes its pages");
}

/* Five of one payer wait before the first of another. */
Test(long_jobs, payers_take_turns)
{
	static const uint32_t payers[] = { 1, 1, 1, 1, 1, 2, 2, 3 };
	static const size_t expected[] = { 0, 5, 7, 1, 6, 2, 3, 4 };
	struct job jobs[ARRAY_SIZE(payers)];
	struct waiting_jobs waiting = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(payers); i++) {
		jobs[i] = job_of(payers[i], MIB);
		waiting_jobs_push(&waiting, &jobs[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(payers); i++)
		cr_assert(eq(ptr, waiting_jobs_pop(&waiting), &jobs[expected[i]]));
	cr_assert(eq(ptr, waiting_jobs_pop(&waiting), NULL));
	cr_assert(eq(u32, waiting.n, 0));
}

Test(long_jobs, a_payer_that_comes_again_is_last)
{
	struct job jobs[] = { job_of(1, MIB), job_of(2, MIB), job_of(3, MIB) };
	struct waiting_jobs waiting = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++)
		waiting_jobs_push(&waiting, &jobs[i]);
	cr_assert(eq(ptr, waiting_jobs_pop(&waiting), &jobs[0]));
	waiting_jobs_push(&waiting, &jobs[0]);
	cr_assert(eq(ptr, waiting_jobs_pop(&waiting), &jobs[1]));
	cr_assert(eq(ptr, waiting_jobs_pop(&waiting), &jobs[2]));
	cr_assert(eq(ptr, waiting_jobs_pop(&waiting), &jobs[0]));
}

/* A pool begins with six threads. */
Test(long_jobs, leave_threads_to_short_ones)
{
	struct job job = job_of(1, MIB);
	struct long_jobs longs = { 0 };
	int n = 0;

	for (; long_jobs_pass(&longs); n++)
		long_jobs_count(&longs, 1);
	cr_assert(eq(int, n, 4));
	waiting_jobs_push(&longs.waiting, &job);
	cr_assert(eq(ptr, long_jobs_pop(&longs), NULL));
	long_jobs_count(&longs, -1);
	cr_assert(not(long_jobs_pass(&longs)), "one that waits comes first");
	cr_assert(eq(u32, long_jobs_ready(&longs), 1));
	cr_assert(eq(ptr, long_jobs_pop(&longs), &job));
}

Test(long_jobs, are_cut_while_two_payers_come)
{
	struct job a = job_of(1, MIB), b = job_of(2, 4096);
	struct long_jobs longs = { 0 };
	uint64_t alone;

	long_jobs_note(&longs, &a);
	longs.shared_ms = 0; /* the first payer is not the second */
	alone = long_jobs_piece(&longs);
	long_jobs_note(&longs, &a);
	cr_assert(eq(u64, long_jobs_piece(&longs), alone));
	long_jobs_note(&longs, &b);
	cr_assert(eq(u64, long_jobs_piece(&longs), 64 * MIB));
	longs.shared_ms -= 2000;
	cr_assert(eq(u64, long_jobs_piece(&longs), alone));
}

Test(long_jobs, pieces_are_all_of_the_job)
{
	struct job job = job_of(1, 150 * MIB + 3);

	for (uint64_t done = 0; done < 128 * MIB; done += 64 * MIB) {
		job_cut(&job, 64 * MIB);
		cr_assert(eq(u64, job.request.address, 16 * MIB + done));
		cr_assert(eq(u64, job.request.source, 1024 * MIB + done));
		cr_assert(eq(u64, job.request.length, 64 * MIB));
		cr_assert(job_is_long(&job));
		cr_assert(job_go_on(&job));
	}
	job_cut(&job, 64 * MIB);
	cr_assert(eq(u64, job.request.address, 144 * MIB));
	cr_assert(eq(u64, job.request.length, 22 * MIB + 3));
	cr_assert(not(job_go_on(&job)));
}

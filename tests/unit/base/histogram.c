/* SPDX-License-Identifier: MIT */
#include "base/histogram.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <pthread.h>

/* The bucket of a single duration. */
static unsigned int bucket_of(uint64_t ns)
{
	struct histogram histogram = { 0 }, copy;
	unsigned int bucket = 0;

	histogram_add(&histogram, ns);
	histogram_read(&histogram, &copy);
	while (!copy.n[bucket])
		bucket++;
	return bucket;
}

Test(histogram, a_bound_is_in_its_bucket_and_more_is_in_the_next)
{
	cr_assert(eq(uint, bucket_of(0), 0));
	cr_assert(eq(uint, bucket_of(1), 0));
	for (unsigned int i = 0; i < HISTOGRAM_BOUNDS; i++) {
		cr_assert(eq(uint, bucket_of(histogram_bound_ns(i)), i));
		cr_assert(eq(uint, bucket_of(histogram_bound_ns(i) + 1), i + 1));
	}
	cr_assert(eq(uint, bucket_of(UINT64_MAX), HISTOGRAM_BOUNDS));
}

#define N_THREADS 4
#define N_ADDED	  100000

static void *add_many(void *userdata)
{
	for (unsigned int i = 0; i < N_ADDED; i++)
		histogram_add(userdata, i);
	return NULL;
}

Test(histogram, nothing_that_threads_add_is_lost)
{
	struct histogram histogram = { 0 }, copy;
	uint64_t n = 0, sum = (uint64_t)N_THREADS * N_ADDED * (N_ADDED - 1) / 2;
	pthread_t threads[N_THREADS];

	for (int i = 0; i < N_THREADS; i++)
		pthread_create(&threads[i], NULL, add_many, &histogram);
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	histogram_read(&histogram, &copy);
	for (int i = 0; i <= HISTOGRAM_BOUNDS; i++)
		n += copy.n[i];
	cr_assert(eq(u64, n, N_THREADS * N_ADDED));
	cr_assert(eq(u64, copy.sum_ns, sum));
}

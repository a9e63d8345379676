/* SPDX-License-Identifier: MIT */
/* Works that leave the order early, that take memory away, that only watch. */
#include <errno.h>

#include "base/def.h"
#include "unit/model/order_help.h"

/* A write of x that may be given up before it begins. */
static struct work *fleeting(void)
{
	return add((struct work){ .may_leave = true }, x_write);
}

Test(order_leave, what_waited_for_one_that_leaves_begins)
{
	struct work *reading = work(&x, 0, 8, false, NULL), *writing = fleeting();
	struct work *behind = work(&x, 0, 8, false, NULL);

	cr_assert(eq(uint, behind->n_before, 1));
	cr_assert(eq(uint, leave(writing), 1));
	cr_assert(eq(uint, behind->n_before, 0));
	cr_assert(eq(uint, finish(behind) + finish(reading), 0));
	expect_empty();
}

Test(order_leave, a_follower_of_a_work_that_left_waits_for_the_works_before_it)
{
	struct work *first = work(&x, 0, 8, true, NULL), *writing = fleeting();
	struct work *behind = work(&x, 0, 8, false, NULL), *later;

	cr_assert(eq(uint, leave(writing), 0));
	later = work(&x, 0, 8, false, NULL);
	cr_assert(eq(uint, behind->n_before, 1));
	cr_assert(eq(uint, later->n_before, 1));
	cr_assert(eq(uint, finish(first), 2));
	cr_assert(eq(uint, finish(behind) + finish(later), 0));
	expect_empty();
}

Test(order_leave, a_work_that_leaves_is_on_no_list_of_followers)
{
	struct work *a = work(&x, 0, 4, false, NULL), *b = work(&x, 4, 4, false, NULL);
	struct work *writing = fleeting(), *other = fleeting();

	cr_assert(eq(uint, leave(writing), 0));
	cr_assert(eq(uint, finish(a), 0));
	cr_assert(eq(uint, finish(b), 1));
	cr_assert(eq(uint, finish(other), 0));
	expect_empty();
}

Test(order_leave, works_that_may_leave_each_follow_one_work)
{
	struct work *first = work(&x, 0, 8, true, NULL), *writers[8];
	unsigned int n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(writers); i++) {
		writers[i] = fleeting();
		cr_expect(eq(uint, writers[i]->n_before, 1));
	}
	/* The neighbours close the gaps, whichever goes. */
	cr_assert(eq(uint, leave(writers[3]) + leave(writers[7]) + leave(writers[0]), 0));
	cr_assert(eq(uint, writers[4]->n_before, 1));
	cr_assert(eq(uint, finish(first), 1));
	for (size_t i = 1; i < 7; i++)
		n += i == 3 ? 0 : finish(writers[i]);
	cr_assert(eq(uint, n, 4));
	expect_empty();
}

Test(order_leave, what_has_begun_does_not_leave)
{
	struct work *writing = fleeting(), *ready = NULL;

	cr_assert(not(order_leave(writing, &ready)));
	cr_assert(eq(uint, finish(writing), 0));
	expect_empty();
}

Test(order_leave, all_uses_are_there_the_oldest_first)
{
	struct work *a = work(&x, 0, 8, true, &s), *b = work(&x, 0, 8, true, &s);

	cr_assert(eq(ptr, x.all_uses, a->uses));
	cr_assert(eq(ptr, x.all_uses->next_of_all, b->uses));
	cr_assert(eq(uint, finish(a) + finish(b), 1));
	cr_assert(eq(ptr, x.all_uses, NULL));
}

/* A withdrawal of x from the worker whose kernels form this chain. */
static struct work *taking(const void *chain)
{
	return add((struct work){ .takes_from = chain },
		   (struct use){ .allocation = &x, .length = 8, .places = true });
}

Test(order_leave, what_takes_memory_away_waits_for_kernels_of_that_worker_that_have_begun)
{
	struct work *begun = kernel(&s), *queued = kernel(&t), *other, *mine;

	cr_assert(eq(uint, send_work(begun, 1), 1));
	other = taking(&y);
	mine = taking(&x);
	cr_assert(eq(uint, other->n_before, 0));
	cr_assert(eq(uint, mine->n_before, 1));
	cr_assert(eq(uint, finish(other), 0));
	cr_assert(eq(uint, finish(begun), 1));
	cr_assert(eq(uint, finish(mine) + finish(queued), 0));
	expect_empty();
}

Test(order_leave, what_takes_memory_away_waits_for_work_within_that_worker)
{
	struct work *within = work(&x, 0, 8, true, NULL);
	struct work *waits = work(&x, 0, 8, true, NULL), *other, *mine;

	cr_assert(not(work_has_begun(within)));
	other = taking(&x);
	cr_assert(eq(uint, other->n_before, 0));
	within->within = &x;
	cr_assert(work_has_begun(within));
	mine = taking(&x);
	cr_assert(eq(uint, mine->n_before, 1));
	cr_assert(eq(uint, taking(&y)->n_before, 0));
	cr_assert(eq(uint, waits->n_before, 1));
	cr_assert(eq(uint, finish(within), 2));
}

/* A write behind the kernel has replaced the kernel's use in the list. */
Test(order_leave, what_takes_memory_away_finds_a_kernel_that_a_write_hides)
{
	struct work *begun = kernel(&s), *write, *mine;

	cr_assert(eq(uint, send_work(begun, 1), 0));
	write = work(&x, 0, 8, true, NULL);
	mine = taking(&x);
	cr_assert(eq(uint, write->n_before, 1));
	cr_assert(eq(uint, mine->n_before, 1));
	cr_assert(eq(uint, finish(begun), 2));
	cr_assert(eq(uint, finish(write) + finish(mine), 0));
	expect_empty();
}

Test(order_leave, what_takes_memory_away_hides_nothing_and_only_writers_wait_for_it)
{
	struct work *kernel_of_others = work(&x, 0, 8, true, NULL), *mine = taking(&x);
	struct work *read = work(&x, 0, 8, false, NULL);
	struct work *write = work(&x, 0, 8, true, NULL);

	cr_assert(eq(uint, mine->n_before, 0));
	cr_assert(eq(uint, read->n_before, 1));
	cr_assert(eq(uint, write->n_before, 3));
	cr_assert(eq(uint, finish(mine), 0));
	cr_assert(eq(uint, finish(kernel_of_others), 1));
	cr_assert(eq(uint, finish(read), 1));
	cr_assert(eq(uint, finish(write), 0));
	expect_empty();
}

/* A question about x to a driver. */
static struct work *watch(void)
{
	return add((struct work){ 0 },
		   (struct use){ .allocation = &x, .length = 8, .watches = true });
}

Test(order_leave, question_waits_for_nothing_and_only_the_free_waits_for_it)
{
	struct work *writer = work(&x, 0, 8, true, NULL), *question = watch();
	struct work *later = work(&x, 0, 8, true, NULL), *release;

	cr_expect(eq(uint, question->n_before, 0));
	cr_expect(eq(uint, later->n_before, 1));
	cr_expect(eq(uint, finish(writer), 1));
	cr_expect(eq(uint, finish(later), 0));
	x.state = ALLOCATION_FREED;
	release = work(&x, 0, 8, true, NULL);
	cr_expect(eq(uint, release->n_before, 1));
	cr_expect(eq(uint, finish(question), 1));
	finish(release);
	x.state = ALLOCATION_LIVE;
	expect_empty();
}

/* The second is detached before the first has ended: what comes behind on the stream
 * still waits for the kernel. */
Test(order_leave, works_on_a_stream_are_detached_one_after_the_other)
{
	const struct use y_write = { .allocation = &y, .length = 8, .write = true };
	struct work *begun = kernel(&s), *first, *second, *behind;

	struct detaching all = { .pairs_left = UINT64_MAX };

	cr_assert(eq(uint, send_work(begun, 1), 0));
	first = add((struct work){ .stream = &s, .may_leave = true }, y_write);
	second = add((struct work){ .stream = &s, .may_leave = true, .chain = &x },
		     y_write);
	behind = add((struct work){ .stream = &s }, (struct use){ 0 });
	cr_assert(eq(int, order_detach(first, &all), 0));
	cr_assert(eq(int, order_detach(second, &all), 0));
	cr_assert(eq(uint, finish(first) + finish(second), 0));
	cr_assert(eq(uint, behind->n_before, 1));
	cr_assert(eq(uint, finish(begun), 1));
	finish(behind);
	expect_empty();
}

/* So many that a reader and a writer of each can't be compared under the lock. */
#define MANY 400

Test(order_leave, what_leaves_a_long_queue_has_its_turn)
{
	struct work *first = work(&x, 0, MANY, true, NULL), *between;
	struct work *readers[MANY], *writers[MANY], *ready = NULL;
	unsigned int n = 0;

	for (uint64_t i = 0; i < MANY; i++)
		readers[i] = work(&x, 0, MANY, false, NULL);
	between = add((struct work){ .may_leave = true },
		      (struct use){ .allocation = &x, .length = MANY, .write = true });
	for (uint64_t i = 0; i < MANY; i++)
		writers[i] = work(&x, i, 1, true, NULL);
	cr_assert(not(order_leave(between, &ready)));
	cr_assert(eq(uint, finish(first), MANY));
	for (uint64_t i = 0; i < MANY; i++)
		n += finish(readers[i]);
	cr_assert(eq(uint, n, 1));
	cr_assert(eq(uint, finish(between), MANY));
	for (uint64_t i = 0; i < MANY; i++)
		cr_assert(eq(uint, finish(writers[i]), 0));
	expect_empty();
}

Test(order_leave, what_would_wait_for_too_many_changes_nothing)
{
	struct work *parts[3], *whole = calloc(1, sizeof(*whole));

	for (uint64_t i = 0; i < ARRAY_SIZE(parts); i++)
		parts[i] = work(&x, i, 1, true, NULL);
	work_use(whole, &x, 0, 8, false);
	cr_assert(eq(int, order_add_within(whole, 2), -EBUSY));
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		cr_assert(eq(uint, parts[i]->n_followers, 0));
	cr_assert(eq(int, order_add_within(whole, 3), 0));
	cr_assert(eq(uint, whole->n_before, 3));
	cr_assert(eq(uint, finish(parts[0]) + finish(parts[1]) + finish(parts[2]), 1));
	cr_assert(eq(uint, finish(whole), 0));
	expect_empty();
}

/* Each follower would wait for each read that the write has dropped. */
Test(order_leave, a_work_with_too_many_pairs_stays)
{
	struct work *begun = kernel(&s), *reads[10], *write, *behind[10];
	struct detaching all = { .pairs_left = 99 };

	for (int i = 0; i < 10; i++)
		reads[i] = add((struct work){ 0 }, x_read);
	write = add((struct work){ .may_leave = true },
		    (struct use){ .allocation = &x, .length = 8, .write = true });
	for (int i = 0; i < 10; i++)
		behind[i] = add((struct work){ 0 }, x_read);
	cr_assert(eq(uint, write->n_before, 11));
	cr_assert(eq(int, order_detach(write, &all), -EBUSY));
	cr_assert(eq(uint, write->n_before, 11));
	all.pairs_left = 1000;
	cr_assert(eq(int, order_detach(write, &all), 0));
	cr_assert(eq(u64, all.pairs_left, 1000 - 10 * 12 - 22));
	for (int i = 0; i < 10; i++)
		cr_assert(eq(uint, behind[i]->n_before, 2));
	finish(write);
	finish(begun);
	for (int i = 0; i < 10; i++) {
		finish(reads[i]);
		finish(behind[i]);
	}
	expect_empty();
}

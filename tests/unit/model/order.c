/* SPDX-License-Identifier: MIT */
#include "model/order.h"


#include "base/def.h"
#include "unit/model/order_help.h"

/* The close of a descriptor of x. */
static struct work *sync_of(uint64_t writer)
{
	struct work *made = calloc(1, sizeof(*made));

	made->may_leave = true;
	made->syncs = writer;
	work_use(made, &x, 0, 8, false);
	made->uses[0].watches = true;
	cr_assert(eq(int, order_add(made), 0));
	return made;
}

Test(order, sync_waits_for_the_works_of_its_writer_alone)
{
	struct work *a = work(&x, 0, 8, true, NULL), *b = work(&x, 0, 8, true, NULL);
	struct work *mine, *others;

	a->writer = 1;
	b->writer = 2;
	mine = sync_of(1);
	others = sync_of(3);
	cr_assert(eq(uint, mine->n_before, 1));
	cr_assert(eq(uint, others->n_before, 0));
	/* The second write covers the first, which the sync finds all the same. */
	cr_assert(eq(uint, finish(others), 0));
	cr_assert(eq(uint, finish(a), 2));
	cr_assert(eq(uint, finish(mine) + finish(b), 0));
	expect_empty();
}

/* A later write does not wait for a sync, which may leave; a free does wait. */
Test(order, nothing_but_a_free_waits_for_a_sync)
{
	struct work *a = work(&x, 0, 8, true, NULL), *sync, *later, *freed;
	struct work *ready = NULL;

	a->writer = 1;
	sync = sync_of(1);
	later = work(&x, 0, 8, true, NULL);
	cr_assert(eq(uint, later->n_before, 1));
	x.state = ALLOCATION_FREED;
	freed = work(&x, 0, 8, true, NULL);
	x.state = ALLOCATION_LIVE;
	cr_assert(eq(uint, freed->n_before, 2));
	cr_assert(order_leave(sync, &ready));
	work_deinit(sync);
	free(sync);
	cr_assert(eq(ptr, ready, NULL));
	cr_assert(eq(uint, finish(a), 1));
	cr_assert(eq(uint, finish(later), 1));
	cr_assert(eq(uint, finish(freed), 0));
	expect_empty();
}

Test(order, readers_of_a_range_run_together)
{
	struct work *a = work(&x, 0, 8, false, NULL), *b = work(&x, 4, 8, false, NULL);

	cr_assert(eq(uint, a->n_before + b->n_before, 0));
	cr_assert(eq(uint, finish(b) + finish(a), 0));
	expect_empty();
}

Test(order, writer_waits_for_every_reader_and_readers_for_the_writer)
{
	struct work *a = work(&x, 0, 8, false, NULL), *b = work(&x, 0, 8, false, NULL);
	struct work *w = work(&x, 0, 8, true, NULL);
	struct work *c = work(&x, 0, 8, false, NULL), *d = work(&x, 0, 8, false, NULL);

	cr_assert(eq(uint, w->n_before, 2));
	cr_assert(eq(uint, c->n_before, 1));
	cr_assert(eq(uint, d->n_before, 1));
	cr_assert(eq(uint, finish(b), 0));
	cr_assert(eq(uint, finish(a), 1));
	cr_assert(eq(uint, finish(w), 2));
	cr_assert(eq(uint, finish(c) + finish(d), 0));
	expect_empty();
}

static struct work *place(uint64_t offset, uint64_t length, struct stream *stream)
{
	return add((struct work){ .stream = stream }, (struct use){ .allocation = &x,
								    .offset = offset,
								    .length = length,
								    .places = true });
}

Test(order, placings_read_beside_readers_and_keep_their_own_order)
{
	struct work *r = work(&x, 0, 8, false, NULL), *a = place(0, 8, NULL);
	struct work *b = place(4, 8, NULL), *c = place(8, 8, NULL);
	struct work *w = work(&x, 0, 1, true, NULL);

	cr_assert(eq(uint, a->n_before, 0));
	cr_assert(eq(uint, b->n_before, 1));
	cr_assert(eq(uint, c->n_before, 1));
	cr_assert(eq(uint, w->n_before, 2));
	cr_assert(eq(uint, finish(r), 0));
	cr_assert(eq(uint, finish(a), 2));
	cr_assert(eq(uint, finish(b), 1));
	cr_assert(eq(uint, finish(c) + finish(w), 0));
	expect_empty();
}

Test(order, placing_is_not_forgotten_for_a_reader_on_its_stream)
{
	struct work *a = place(0, 8, &s), *r = work(&x, 0, 8, false, &s);
	struct work *b = place(0, 8, &t);

	cr_assert(eq(uint, b->n_before, 1));
	cr_assert(eq(uint, finish(a), 2));
	cr_assert(eq(uint, finish(r) + finish(b), 0));
	expect_empty();
}

Test(order, ranges_that_only_touch_do_not_conflict)
{
	struct work *a = work(&x, 0, 8, true, NULL), *b = work(&x, 8, 8, true, NULL);
	struct work *c = work(&x, 7, 2, true, NULL);

	cr_assert(eq(uint, b->n_before, 0));
	cr_assert(eq(uint, c->n_before, 2));
	cr_assert(eq(uint, finish(a), 0));
	cr_assert(eq(uint, finish(b), 1));
	cr_assert(eq(uint, finish(c), 0));
	expect_empty();
}

Test(order, allocations_are_apart)
{
	struct work *a = work(&x, 0, 8, true, NULL), *b = work(&y, 0, 8, true, NULL);

	cr_assert(eq(uint, b->n_before, 0));
	cr_assert(eq(uint, finish(a) + finish(b), 0));
	expect_empty();
}

Test(order, stream_goes_one_by_one)
{
	struct work *a = work(&x, 0, 8, false, &s), *b = work(&y, 0, 8, false, &s);
	struct work *c = work(NULL, 0, 0, false, &s), *d = work(NULL, 0, 0, false, &t);

	cr_assert(eq(uint, b->n_before, 1));
	cr_assert(eq(uint, c->n_before, 1));
	cr_assert(eq(uint, d->n_before, 0));
	cr_assert(eq(uint, finish(a), 1));
	cr_assert(eq(uint, finish(b), 1));
	cr_assert(eq(uint, finish(c) + finish(d), 0));
	expect_empty();
}

Test(order, two_uses_of_one_work_do_not_wait_for_each_other)
{
	struct work *copy = calloc(1, sizeof(*copy)), *after;

	work_use(copy, &x, 0, 8, true);
	work_use(copy, &x, 4, 8, false);
	cr_assert(eq(int, order_add(copy), 0));
	cr_assert(eq(uint, copy->n_before, 0));
	after = work(&x, 0, 16, true, &s);
	cr_assert(eq(uint, after->n_before, 1));
	cr_assert(eq(uint, finish(copy), 1));
	cr_assert(eq(uint, finish(after), 0));
	expect_empty();
}

Test(order, long_queue_of_fills_leaves_one_use_behind)
{
	enum { N = 1000 };
	struct work *works[N];
	unsigned int n = 0;
	struct use *use;

	for (int i = 0; i < N; i++)
		works[i] = work(&x, 0, 64, true, NULL);
	for (use = x.uses; use; use = use->next)
		n++;
	cr_assert(eq(uint, n, 1));
	cr_assert(eq(u32, x.n_works, N));
	for (int i = 0; i < N; i++) {
		cr_assert(eq(uint, works[i]->n_before, 0));
		(void)finish(works[i]);
	}
	expect_empty();
}

/* Read b replaces read a in the allocation's list. A work that waits for b waits for a,
 * too. */
Test(order, replaced_read_is_still_waited_for)
{
	struct work *w = work(&x, 0, 8, true, &s);
	struct work *a = work(&x, 2, 2, false, &s), *b = work(&x, 0, 8, false, &s);
	struct work *c = work(&x, 2, 2, true, NULL);

	cr_assert(eq(uint, finish(w), 1));
	cr_assert(gt(uint, c->n_before, 0));
	cr_assert(eq(uint, finish(a), 1));
	cr_assert(gt(uint, c->n_before, 0));
	cr_assert(eq(uint, finish(b), 1));
	cr_assert(eq(uint, finish(c), 0));
	expect_empty();
}

Test(order, work_that_nobody_asked_for_is_counted_until_somebody_does)
{
	struct work *a = add((struct work){ .unasked = true }, x_read);
	struct work *b = add((struct work){ .unasked = true }, x_read);

	cr_assert(eq(u32, x.n_works, 2));
	cr_assert(eq(u32, x.n_unasked, 2));
	order_set_unasked(a, false);
	cr_assert(eq(u32, x.n_unasked, 1));
	finish(a);
	cr_assert(eq(u32, x.n_unasked, 1));
	finish(b);
	cr_assert(eq(u32, x.n_unasked, 0));
	expect_empty();
}

/* ---- chains ---- */

Test(order, chained_work_waits_to_be_sent_and_not_for_the_end)
{
	struct work *a = kernel(&s), *b = kernel(&s), *c = kernel(&t);

	cr_assert(eq(uint, b->n_before, 1));
	cr_assert(eq(uint, send_work(a, 7), 1));
	cr_assert(eq(uint, b->n_before, 0));
	cr_assert(eq(uint, b->n_after, 0), "a stream keeps its own order");
	cr_assert(eq(uint, send_work(b, 8), 1));
	cr_assert(eq(uint, c->n_after, 1));
	cr_assert(eq(u64, c->after[0], 8));
	cr_assert(eq(uint, c->n_ahead, 1));
	cr_assert(eq(uint, finish(a) + finish(b), 0));
	cr_assert(eq(uint, c->n_ahead, 0));
	cr_assert(eq(uint, finish(c), 0));
	expect_empty();
}

Test(order, chained_work_of_what_was_sent_can_begin_at_once)
{
	struct work *a = kernel(&s), *b;

	send_work(a, 7);
	b = kernel(&t);
	cr_assert(eq(uint, b->n_before, 0));
	cr_assert(eq(u64, b->after[0], 7));
	finish(a);
	finish(b);
	expect_empty();
}

Test(order, work_that_ends_before_what_it_follows_leaves_after_it)
{
	struct work *a = kernel(&s), *b = kernel(&s);

	send_work(a, 7);
	send_work(b, 8);
	b->ended = true;
	cr_assert(eq(uint, finish(a), 1), "b leaves now");
	finish(b);
	expect_empty();
}

Test(order, work_that_ends_while_it_is_sent_leaves_once)
{
	struct work *a = kernel(&s), *b = kernel(&s), *ready = NULL;

	send_work(a, 7);
	order_sending(b);
	b->ended = true;
	cr_assert(eq(uint, finish(a), 0), "its sender sees to it");
	cr_assert(order_sent(b, 8, &ready));
	finish(b);
	expect_empty();
}

Test(order, work_that_could_not_be_sent_leaves_after_what_it_follows)
{
	struct work *a = kernel(&s), *b = kernel(&s), *ready = NULL;

	send_work(a, 7);
	order_sending(b);
	b->ended = true;
	cr_assert(not(order_sent(b, 0, &ready)));
	cr_assert(eq(uint, finish(a), 1), "b leaves now");
	finish(b);
	expect_empty();
}

Test(order, chained_work_goes_on_when_the_one_before_was_never_sent)
{
	struct work *a = kernel(&s), *b = kernel(&t);

	cr_assert(eq(uint, finish(a), 1));
	cr_assert(eq(uint, b->n_before + b->n_ahead + b->n_after, 0));
	finish(b);
	expect_empty();
}

Test(order, others_wait_for_the_end_of_a_chained_work)
{
	struct work *a = kernel(&s), *reader = work(&x, 0, 8, false, NULL);

	cr_assert(eq(uint, send_work(a, 7), 0));
	cr_assert(eq(uint, reader->n_before, 1));
	cr_assert(eq(uint, finish(a), 1));
	finish(reader);
	expect_empty();
}

Test(order, work_that_follows_many_streams_is_told_of_few_and_waits_for_the_rest)
{
	struct stream streams[WORK_AFTER_MAX + 3] = { 0 };
	struct work *readers[ARRAY_SIZE(streams)], *writer;
	unsigned int n = 0;

	for (unsigned int i = 0; i < ARRAY_SIZE(streams); i++) {
		readers[i] = kernel_use(&streams[i], x_read);
		send_work(readers[i], i + 1);
	}
	writer = kernel(&s);
	cr_assert(eq(uint, writer->n_after, WORK_AFTER_MAX));
	cr_assert(eq(uint, writer->n_before, 3));
	for (unsigned int i = 0; i < ARRAY_SIZE(streams); i++)
		n += finish(readers[i]);
	cr_assert(eq(uint, n, 1));
	finish(writer);
	expect_empty();
}

Test(order, many_uses_fit_once_there_is_room_for_them)
{
	struct work *made = calloc(1, sizeof(*made));

	cr_assert(eq(int, work_reserve_uses(made, 9), 0));
	for (uint64_t i = 0; i < 9; i++)
		work_use(made, &x, i, 1, false);
	cr_assert(eq(int, order_add(made), 0));
	finish(made);
	expect_empty();
}

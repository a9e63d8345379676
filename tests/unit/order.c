/* SPDX-License-Identifier: MIT */
#include "registry/order.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "registry/registry.h"

static struct allocation x, y;
static struct stream s, t;

static struct work *work(struct allocation *allocation, uint64_t offset, uint64_t length,
			 bool write, struct stream *stream)
{
	struct work *made = calloc(1, sizeof(*made));

	made->stream = stream;
	if (allocation)
		work_use(made, allocation, offset, length, write);
	cr_assert(eq(int, order_add(made), 0));
	return made;
}

/* Done. Returns: how many became ready. */
static unsigned int finish(struct work *done)
{
	struct work *ready = NULL;
	unsigned int n = 0;

	order_done(done, &ready);
	for (; ready; ready = ready->next_ready)
		n++;
	free(done);
	return n;
}

static void expect_empty(void)
{
	cr_assert(eq(ptr, x.uses, NULL));
	cr_assert(eq(ptr, y.uses, NULL));
	cr_assert(eq(u32, x.n_works, 0));
	cr_assert(eq(u32, s.n_works, 0));
	cr_assert(eq(ptr, s.last, NULL));
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

/* The read in the middle is dropped from the list; who waits for its replacement waits
 * for it too. */
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

/* ---- against a model ---- */

#define MODEL_WORKS  400
#define MODEL_ROUNDS 200

struct model {
	struct work *work; /* NULL: done */
	bool before[MODEL_WORKS];
};

static struct model models[MODEL_WORKS];
static struct allocation model_allocations[3];
static struct stream model_streams[3];

static uint32_t random_state;

static uint32_t draw(uint32_t n)
{
	random_state = random_state * 1664525 + 1013904223;
	return (uint32_t)(((uint64_t)random_state * n) >> 32);
}

static bool uses_meet(const struct work *a, const struct work *b)
{
	for (unsigned int i = 0; i < a->n_uses; i++) {
		for (unsigned int j = 0; j < b->n_uses; j++) {
			const struct use *p = &a->uses[i], *q = &b->uses[j];

			if (p->allocation == q->allocation && (p->write || q->write) &&
			    p->offset < q->offset + q->length &&
			    q->offset < p->offset + p->length)
				return true;
		}
	}
	return false;
}

static void model_add(int at)
{
	struct work *made = calloc(1, sizeof(*made));
	uint32_t stream = draw(5), n = 1 + draw(2);

	if (stream < 3)
		made->stream = &model_streams[stream];
	for (uint32_t i = 0; i < n; i++) {
		uint64_t offset = draw(16);

		work_use(made, &model_allocations[draw(3)], offset, 1 + draw(16), draw(3) == 0);
	}
	for (int i = 0; i < at; i++)
		models[at].before[i] =
			models[i].work &&
			(uses_meet(made, models[i].work) ||
			 (made->stream && made->stream == models[i].work->stream));
	cr_assert(eq(int, order_add(made), 0));
	models[at].work = made;
}

/* Ready must be just what has nothing undone before it: every wait of the model is kept,
 * by one step or several, and there is no other. */
static void model_check(int n)
{
	for (int i = 0; i < n; i++) {
		bool must_wait = false;

		if (!models[i].work)
			continue;
		for (int j = 0; j < i && !must_wait; j++)
			must_wait = models[i].before[j] && models[j].work;
		if ((models[i].work->n_before > 0) != must_wait)
			cr_fail("work %d waits for %u and should%s wait", i,
				models[i].work->n_before, must_wait ? "" : " not");
	}
}

static void model_finish_one(int n)
{
	struct work *ready = NULL, *done;
	int at = (int)draw((uint32_t)n);

	for (int i = 0; i < n; i++, at = (at + 1) % n) {
		if (models[at].work && models[at].work->n_before == 0)
			break;
	}
	done = models[at].work;
	models[at].work = NULL;
	order_done(done, &ready);
	for (; ready; ready = ready->next_ready)
		cr_assert(eq(uint, ready->n_before, 0));
	free(done);
}

Test(order, agrees_with_a_naive_model, .timeout = 120)
{
	for (uint32_t round = 0; round < MODEL_ROUNDS; round++) {
		int n = 0, n_done = 0;

		random_state = round;
		memset(models, 0, sizeof(models));
		while (n_done < MODEL_WORKS / 4) {
			if (n < MODEL_WORKS / 4 && (n == n_done || draw(3))) {
				model_add(n++);
			} else {
				model_finish_one(n);
				n_done++;
			}
			model_check(n);
		}
		for (int i = 0; i < 3; i++) {
			cr_assert(eq(ptr, model_allocations[i].uses, NULL));
			cr_assert(eq(u32, model_allocations[i].n_works, 0));
			cr_assert(eq(u32, model_streams[i].n_works, 0));
			cr_assert(eq(ptr, model_streams[i].last, NULL));
		}
	}
}

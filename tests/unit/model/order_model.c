/* SPDX-License-Identifier: MIT */
/*
 * The order of random works against a naive model: every work waits for every earlier
 * work that conflicts.
 */
#include "model/order.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "model/registry.h"
#include "model/stream.h"

#define MODEL_WORKS  400
#define MODEL_ROUNDS 200

struct model {
	struct work *work; /* NULL: done */
	bool before[MODEL_WORKS];
	bool behind[MODEL_WORKS]; /* works whose end the GPU awaits, directly or not */
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
			    p->offset < q->offset + q->length + q->beyond &&
			    q->offset < p->offset + p->length + p->beyond)
				return true;
		}
	}
	return false;
}

static void model_add(int at)
{
	struct work *made = calloc(1, sizeof(*made));
	uint32_t stream = draw(5), n = 1 + draw(2);

	made->may_leave = stream == 3 || draw(3) == 0;
	if (stream < 3)
		made->stream = &model_streams[stream];
	if (stream < 3 && draw(2))
		made->chain = &model_streams[draw(2)];
	for (uint32_t i = 0; i < n; i++) {
		uint64_t offset = draw(16);

		work_use(made, &model_allocations[draw(3)], offset, 1 + draw(16),
			 draw(3) == 0);
		made->uses[i].beyond = draw(3) == 0 ? draw(16) : 0;
	}
	for (int i = 0; i < at; i++)
		models[at].before[i] =
			models[i].work &&
			(uses_meet(made, models[i].work) ||
			 (made->stream && made->stream == models[i].work->stream));
	cr_assert(eq(int, order_add(made), 0));
	models[at].work = made;
}

static bool model_chained(int i, int j)
{
	return models[i].work->chain && models[i].work->chain == models[j].work->chain;
}

/* On the GPU a work follows all works sent earlier on its stream, and the works that it
 * names in `after`. */
static void model_send(int n, int at)
{
	struct work *work = models[at].work, *ready = NULL;

	for (int i = 0; i < n; i++) {
		bool named = false;

		if (!models[i].work || !models[i].work->sent || !model_chained(at, i))
			continue;
		for (unsigned int k = 0; k < work->n_after; k++)
			named |= work->after[k] == (uint64_t)i + 1;
		if (!named && models[i].work->stream != work->stream)
			continue;
		models[at].behind[i] = true;
		for (int j = 0; j < n; j++)
			models[at].behind[j] |= models[i].behind[j];
	}
	for (int i = 0; i < at; i++)
		if (models[at].before[i] && models[i].work && !models[at].behind[i])
			cr_fail("work %d was sent and is not behind work %d", at, i);
	order_sending(work);
	order_sent(work, (uint64_t)at + 1, &ready);
}

/* A work must be ready exactly when all works before it are done: the order keeps every
 * wait of the model, directly or not, and adds none. */
static void model_check(int n)
{
	for (int i = 0; i < n; i++) {
		bool must_wait = false;

		if (!models[i].work)
			continue;
		if (models[i].work->sent)
			continue;
		for (int j = 0; j < i && !must_wait; j++)
			must_wait = models[i].before[j] && models[j].work &&
				    !(models[j].work->sent && model_chained(i, j));
		if ((models[i].work->n_before > 0) != must_wait)
			cr_fail("work %d waits for %u and should%s wait", i,
				models[i].work->n_before, must_wait ? "" : " not");
	}
}

static void model_end(int at, struct work *ready)
{
	struct work *work = models[at].work;

	models[at].work = NULL;
	for (; ready; ready = ready->next_ready)
		cr_assert(eq(uint, ready->n_before, 0));
	work_deinit(work);
	free(work);
}

/* A work that waits and may leave; -1: there is none. */
static int model_find_leaver(int n)
{
	int at = (int)draw((uint32_t)n);

	for (int i = 0; i < n; i++, at = (at + 1) % n) {
		if (models[at].work && models[at].work->may_leave &&
		    models[at].work->n_before)
			return at;
	}
	return -1;
}

/* Detaches up to three works before the first of them ends. Returns: how many. */
static int model_detach(int n)
{
	struct detaching all = { .pairs_left = UINT64_MAX };
	int leavers[3], n_leavers = 0, at;

	while (n_leavers < 1 + (int)draw(3) && (at = model_find_leaver(n)) >= 0) {
		cr_assert(eq(int, order_detach(models[at].work, &all), 0));
		leavers[n_leavers++] = at;
	}
	for (int i = 0; i < n_leavers; i++) {
		struct work *ready = NULL;

		order_done(models[leavers[i]].work, &ready);
		model_end(leavers[i], ready);
	}
	return n_leavers;
}

/* Works that wait leave, if any may; those on a stream are detached. Returns: how many.
 */
static int model_leave(int n)
{
	int at = model_find_leaver(n);
	struct work *ready = NULL;

	if (at < 0)
		return 0;
	if (models[at].work->stream || draw(2))
		return model_detach(n);
	cr_assert(order_leave(models[at].work, &ready));
	model_end(at, ready);
	return 1;
}

/* Sends or finishes a work. Returns: true: finished. */
static bool model_step(int n)
{
	struct work *ready = NULL, *done;
	int at = (int)draw((uint32_t)n);

	for (int i = 0; i < n; i++, at = (at + 1) % n) {
		if (models[at].work && models[at].work->n_before == 0 &&
		    models[at].work->n_ahead == 0)
			break;
		if (models[at].work && models[at].work->n_before == 0 &&
		    models[at].work->chain && !models[at].work->sent)
			break;
	}
	done = models[at].work;
	if (done->chain && !done->sent && (done->n_ahead || draw(8))) {
		model_send(n, at);
		return false;
	}
	order_done(done, &ready);
	model_end(at, ready);
	return true;
}

Test(order_model, agrees_with_a_naive_model, .timeout = 120)
{
	for (uint32_t round = 0; round < MODEL_ROUNDS; round++) {
		int n = 0, n_done = 0;

		random_state = round;
		memset(models, 0, sizeof(models));
		while (n_done < MODEL_WORKS / 4) {
			if (n < MODEL_WORKS / 4 && (n == n_done || draw(3))) {
				model_add(n++);
			} else if (n > n_done && draw(4) == 0) {
				n_done += model_leave(n);
			} else {
				n_done += model_step(n);
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

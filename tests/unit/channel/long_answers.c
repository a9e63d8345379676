/* SPDX-License-Identifier: MIT */
/* Who asked for many bytes copies them: others' answers are not to wait meanwhile. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>

#include "unit/channel/channel_help.h"

TestSuite(long_answers, .timeout = 60);

static struct {
	pthread_mutex_t lock;
	pthread_cond_t opened;
	bool is_open;
	uint32_t payers[8]; /* of the answers, in their order */
	unsigned int n;
} gate = { .lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER };

/* Whoever asked copies the bytes, which takes until the gate is open. */
static void copy_slowly(struct request *request, const struct wire_reply *reply,
			bool lost)
{
	pthread_mutex_lock(&gate.lock);
	gate.payers[gate.n++] = request->record.payer;
	while (!gate.is_open)
		pthread_cond_wait(&gate.opened, &gate.lock);
	pthread_mutex_unlock(&gate.lock);
	question_done(request, reply, lost);
}

static void read_slowly(struct question *question, struct fixture *fixture,
			uint32_t payer)
{
	*question = (struct question){
		.request = { .record = { .op = WIRE_READ,
					 .address = 0x10000,
					 .length = 128 << 10,
					 .payer = payer },
			     .fd = -1,
			     .done = copy_slowly },
		.fixture = fixture,
	};
	channel_send(fixture->channel, &question->request);
}

/* Else users who read much keep all others' small transfers waiting. */
Test(long_answers, a_short_answer_waits_for_no_long_ones)
{
	static const uint32_t payers[] = { 1, 1, 1, 2 }, in_turn[] = { 1, 1, 2, 1 };
	const struct wire_request short_one = { .op = WIRE_MEMORY };
	struct question questions[ARRAY_SIZE(payers)];
	struct fixture fixture;

	fixture_start(&fixture,
		      (struct channel_config){
			      .program = getenv("GPUMEM_HOSTILE"),
			      .driver = "none",
			      .name = "honest",
			      .mover = true,
			      .n_threads = 2,
		      },
		      1);
	for (size_t i = 0; i < ARRAY_SIZE(payers); i++)
		read_slowly(&questions[i], &fixture, payers[i]);
	cr_assert(eq(int, fixture_ask(&fixture, short_one, -1, NULL), 0));
	pthread_mutex_lock(&gate.lock);
	cr_expect(le(uint, gate.n, 1));
	gate.is_open = true;
	pthread_cond_broadcast(&gate.opened);
	pthread_mutex_unlock(&gate.lock);
	for (size_t i = 0; i < ARRAY_SIZE(payers); i++)
		question_wait(&questions[i]);
	for (size_t i = 0; i < ARRAY_SIZE(payers); i++)
		cr_expect(eq(u32, gate.payers[i], in_turn[i]));
	fixture_stop(&fixture);
}

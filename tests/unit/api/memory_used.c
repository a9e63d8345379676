/* SPDX-License-Identifier: MIT */
/* The linker sends each worker_send() of this program through a count of questions. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "api/attribute.h"
#include "api/broker.h"
#include "channel/request.h"
#include "unit/broker_help.h"

TestSuite(memory_used, .timeout = 60);

#define DEVICES "devices=2"

static unsigned int n_sent; /* WIRE_MEMORY; atomic */
static int refusal;	    /* of each WIRE_MEMORY; 0: none */

int __real_worker_send(struct worker *worker, const struct worker_needs *needs,
		       struct request *request, uint32_t *ret_epoch);
int __wrap_worker_send(struct worker *worker, const struct worker_needs *needs,
		       struct request *request, uint32_t *ret_epoch);

int __wrap_worker_send(struct worker *worker, const struct worker_needs *needs,
		       struct request *request, uint32_t *ret_epoch)
{
	if (request->record.op == WIRE_MEMORY) {
		__atomic_add_fetch(&n_sent, 1, __ATOMIC_RELAXED);
		if (refusal)
			return refusal;
	}
	return __real_worker_send(worker, needs, request, ret_epoch);
}

static void ask_space(struct broker *broker, struct answer *answer)
{
	broker_space(broker, &nobody_special, answer_expect(answer));
}

static void ask_device(struct broker *broker, const char *name, struct answer *answer)
{
	const struct attribute *row = attribute_tables[OBJECT_DEVICE].rows;
	struct token device;

	while (strcmp(row->name, "memory_used_bytes"))
		row++;
	cr_assert(eq(int, object_find(broker, OBJECT_DEVICE, TOKEN_NONE, name, &device),
		     0));
	broker_ask(broker, device, row, &nobody_special, answer_expect(answer));
}

static unsigned int n_sent_now(void)
{
	return __atomic_load_n(&n_sent, __ATOMIC_RELAXED);
}

/* A broker whose mover does not answer until mover_signal(SIGCONT). */
static struct broker *broker_start_stopped(void)
{
	struct broker *broker = broker_start("64M", DEVICES);

	driver_free(broker);
	mover_signal(broker, SIGSTOP);
	__atomic_store_n(&n_sent, 0, __ATOMIC_RELAXED);
	return broker;
}

/* A signal ends the wait alone. */
Test(memory_used, questions_that_signals_end_are_one_at_the_mover)
{
	enum { N = 500 };
	static struct answer answers[N];
	struct broker *broker = broker_start_stopped();
	struct answer last;

	for (int i = 0; i < N; i++) {
		ask_space(broker, &answers[i]);
		broker_interrupt(broker, &answers[i].wait);
		cr_assert(eq(int, answer_get(&answers[i]), -EINTR));
	}
	cr_expect(eq(uint, n_sent_now(), 2));
	ask_space(broker, &last);
	mover_signal(broker, SIGCONT);
	cr_expect(eq(int, answer_get(&last), 0));
	cr_expect(eq(uint, n_sent_now(), 4));
	for (int i = 0; i < N; i++)
		cr_expect(eq(uint, answers[i].n, 1));
	broker_end(broker);
}

Test(memory_used, reads_of_a_device_that_signals_end_are_one_at_the_mover)
{
	enum { N = 100 };
	static struct answer answers[N];
	struct broker *broker = broker_start_stopped();
	struct answer other;

	for (int i = 0; i < N; i++) {
		ask_device(broker, "1", &answers[i]);
		broker_interrupt(broker, &answers[i].wait);
		cr_assert(eq(int, answer_get(&answers[i]), -EINTR));
	}
	cr_expect(eq(uint, n_sent_now(), 1));
	ask_device(broker, "0", &other);
	cr_expect(eq(uint, n_sent_now(), 2));
	mover_signal(broker, SIGCONT);
	cr_expect(eq(int, answer_get(&other), 0));
	broker_end(broker);
}

/* What was asked before may have been counted before. */
Test(memory_used, who_asks_meanwhile_gets_the_next_answer)
{
	enum { N = 50 };
	static struct answer others[N];
	struct broker *broker = broker_start_stopped();
	struct answer first;

	ask_space(broker, &first);
	for (int i = 0; i < N; i++)
		ask_space(broker, &others[i]);
	cr_expect(eq(uint, n_sent_now(), 2));
	mover_signal(broker, SIGCONT);
	cr_expect(eq(int, answer_get(&first), 0));
	for (int i = 0; i < N; i++) {
		cr_expect(eq(int, answer_get(&others[i]), 0));
		cr_expect(eq(sz, others[i].length, sizeof(struct broker_space)));
		cr_expect(zero(memcmp(others[i].bytes, others[0].bytes,
				      sizeof(struct broker_space))));
	}
	cr_expect(eq(uint, n_sent_now(), 4));
	broker_end(broker);
}

Test(memory_used, a_mover_that_can_not_be_asked_fails_each_question)
{
	enum { N = 3 };
	static struct answer answers[N];
	struct broker *broker = broker_start("64M", DEVICES);

	refusal = -EHOSTDOWN;
	for (int i = 0; i < N; i++) {
		ask_space(broker, &answers[i]);
		cr_expect(eq(int, answer_get(&answers[i]), -EIO));
	}
	refusal = 0;
	ask_space(broker, &answers[0]);
	cr_expect(eq(int, answer_get(&answers[0]), 0));
	broker_end(broker);
}

Test(memory_used, questions_that_wait_when_the_mover_dies_are_answered)
{
	struct broker *broker = broker_start_stopped();
	struct answer first, second;

	ask_space(broker, &first);
	ask_space(broker, &second);
	mover_signal(broker, SIGKILL);
	cr_expect(eq(int, answer_get(&first), -EIO));
	/* By the next process. */
	cr_expect(eq(int, answer_get(&second), 0));
	broker_end(broker);
}

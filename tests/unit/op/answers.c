/* SPDX-License-Identifier: MIT */
/*
 * Lines that need not wait for a worker are answered before the worker is asked. The
 * linker sends each worker_send() of this program through a note, and each block_free().
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "api/broker.h"
#include "channel/request.h"
#include "memory/block.h"
#include "unit/broker_help.h"

TestSuite(answers, .timeout = 60);

#define SENT_MAX 64

static struct answer *expected; /* of the line; NULL: no line is under way; atomic */
static struct {
	unsigned int op;	 /* enum wire_op */
	unsigned int n_answered; /* answers to the line until then */
	uint64_t pattern;
} sent[SENT_MAX];
static unsigned int n_sent; /* atomic */

int __real_worker_send(struct worker *worker, const struct worker_needs *needs,
		       struct request *request, uint32_t *ret_epoch);
int __wrap_worker_send(struct worker *worker, const struct worker_needs *needs,
		       struct request *request, uint32_t *ret_epoch);

int __wrap_worker_send(struct worker *worker, const struct worker_needs *needs,
		       struct request *request, uint32_t *ret_epoch)
{
	struct answer *answer = __atomic_load_n(&expected, __ATOMIC_ACQUIRE);

	if (answer) {
		unsigned int i = __atomic_fetch_add(&n_sent, 1, __ATOMIC_RELAXED);

		cr_assert(lt(uint, i, SENT_MAX));
		pthread_mutex_lock(&answer->lock);
		sent[i].n_answered = answer->n;
		pthread_mutex_unlock(&answer->lock);
		sent[i].op = request->record.op;
		sent[i].pattern = request->record.pattern;
	}
	return __real_worker_send(worker, needs, request, ret_epoch);
}

static pthread_t releaser; /* the thread that has released the last block */
static uint64_t released;  /* its size */

void __real_block_free(struct memory *memory, struct block *block);
void __wrap_block_free(struct memory *memory, struct block *block);

void __wrap_block_free(struct memory *memory, struct block *block)
{
	releaser = pthread_self();
	__atomic_store_n(&released, block->size, __ATOMIC_RELEASE);
	__real_block_free(memory, block);
}

/* Writes lines, and waits for their ops. */
static void say(struct broker *broker, const char *verb, const char *lines)
{
	struct control *control = control_open(broker, verb);
	struct answer answer;

	answer_expect(&answer);
	n_sent = 0;
	__atomic_store_n(&expected, &answer, __ATOMIC_RELEASE);
	control_write(control, 42, lines, strlen(lines), &answer.wait);
	cr_expect(eq(int, answer_get(&answer), 0));
	broker_settle(broker);
	__atomic_store_n(&expected, NULL, __ATOMIC_RELEASE);
	control_free(control);
}

static void expect_sent(unsigned int i, unsigned int op, unsigned int n_answered)
{
	cr_assert(lt(uint, i, n_sent));
	cr_expect(eq(uint, sent[i].op, op));
	cr_expect(eq(uint, sent[i].n_answered, n_answered));
}

Test(answers, a_line_with_wait_0_is_answered_before_the_worker_is_asked)
{
	struct broker *broker = broker_start("64M", NULL);

	cr_assert(eq(int, command_say(broker, "alloc", "x 4K"), 0));
	cr_assert(eq(int, command_say(broker, "fill", "x u8:1"), 0));
	say(broker, "fill", "x u8:2 wait=0\n");
	expect_sent(0, WIRE_FILL, 1);
	broker_end(broker);
}

Test(answers, a_line_that_waits_is_answered_after_the_worker)
{
	struct broker *broker = broker_start("64M", NULL);

	cr_assert(eq(int, command_say(broker, "alloc", "x 4K"), 0));
	cr_assert(eq(int, command_say(broker, "fill", "x u8:1"), 0));
	say(broker, "fill", "x u8:2\n");
	expect_sent(0, WIRE_FILL, 0);
	broker_end(broker);
}

Test(answers, a_free_is_answered_before_the_worker_is_asked)
{
	struct broker *broker = broker_start("64M", NULL);

	cr_assert(eq(int, command_say(broker, "alloc", "x 4K kind=direct"), 0));
	say(broker, "free", "x\n");
	expect_sent(0, WIRE_FREE, 1);
	broker_end(broker);
}

Test(answers, held_ops_begin_in_the_order_of_the_lines)
{
	struct broker *broker = broker_start("64M", NULL);

	for (int i = 0; i < 3; i++) {
		char name[16];
		struct token token;

		snprintf(name, sizeof(name), "s%d", i);
		cr_assert(eq(int, object_make(broker, OBJECT_STREAM, name, &token), 0));
		cr_assert(eq(int, command_say(broker, "alloc", "x%d 4K", i), 0));
		cr_assert(eq(int,
			     command_say(broker, "fill", "x%d u8:9 stream=s%d", i, i),
			     0));
	}
	say(broker, "fill",
	    "x0 u8:1 wait=0 stream=s0\n"
	    "x1 u8:2 wait=0 stream=s1\n"
	    "x2 u8:3 wait=0 stream=s2\n");
	for (unsigned int i = 0; i < 3; i++) {
		expect_sent(i, WIRE_FILL, 1);
		cr_expect(eq(u64, sent[i].pattern & 0xff, i + 1));
	}
	broker_end(broker);
}

/* The kernel takes milliseconds, and this thread may be the one that reads requests. */
Test(answers, much_host_memory_is_released_by_another_thread)
{
	struct broker *broker = broker_start("64M", NULL);

	cr_assert(eq(int, command_say(broker, "alloc", "x 32M kind=host"), 0));
	say(broker, "free", "x\n");
	while (__atomic_load_n(&released, __ATOMIC_ACQUIRE) != 32 << 20)
		usleep(100);
	cr_expect(pthread_equal(releaser, pthread_self()) == 0);
	broker_end(broker);
}

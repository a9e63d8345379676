/* SPDX-License-Identifier: MIT */
/*
 * Threads that look for answers themselves. The linker replaces sched_getaffinity(), so
 * that there are as many processors as a case wants.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/look.h"
#include "channel/look.h"
#include "unit/channel/channel_help.h"

TestSuite(look, .timeout = 60);

#define N_QUESTIONS 500
#define N_THREADS   4

static const struct wire_request memory = { .op = WIRE_MEMORY };
static int n_cpus = 16;

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cpus);

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cpus)
{
	(void)pid;
	(void)size;
	CPU_ZERO(cpus);
	for (int i = 0; i < n_cpus; i++)
		CPU_SET(i, cpus);
	return 0;
}

static void start(struct fixture *fixture, const char *part)
{
	fixture_start(fixture,
		      (struct channel_config){
			      .program = getenv("GPUMEM_HOSTILE"),
			      .driver = "none",
			      .name = part,
			      .mover = true,
			      .uid = geteuid(),
			      .gid = getegid(),
			      .n_threads = 2,
		      },
		      1);
}

/* A question, and the thread that was told its answer. */
struct asked {
	struct request request;
	pthread_t teller;
	unsigned int n_answers; /* atomic */
	bool lost;
	struct fixture *fixture;
};

static void asked_done(struct request *request, const struct wire_reply *reply, bool lost)
{
	struct asked *asked = container_of(request, struct asked, request);

	(void)reply;
	asked->teller = pthread_self();
	asked->lost = lost;
	if (!lost) {
		pthread_mutex_lock(&asked->fixture->lock);
		cr_expect(eq(uint, asked->fixture->n_ended, 0));
		pthread_mutex_unlock(&asked->fixture->lock);
	}
	__atomic_add_fetch(&asked->n_answers, 1, __ATOMIC_RELEASE);
}

static unsigned int n_glances; /* of the look under way; atomic */

static bool is_answered(void *userdata)
{
	const struct asked *asked = userdata;

	__atomic_add_fetch(&n_glances, 1, __ATOMIC_RELAXED);
	return __atomic_load_n(&asked->n_answers, __ATOMIC_ACQUIRE);
}

static void ask(struct asked *asked, struct fixture *fixture)
{
	*asked = (struct asked){
		.request = { .record = memory, .fd = -1, .done = asked_done },
		.fixture = fixture,
	};
	channel_send(fixture->channel, &asked->request);
}

/* Asks, looks, and waits for the answer. Returns: whether this thread was told. */
static bool ask_and_look(struct fixture *fixture)
{
	struct asked asked;

	broker_look_begin();
	ask(&asked, fixture);
	broker_look(is_answered, &asked);
	broker_look_end();
	while (!__atomic_load_n(&asked.n_answers, __ATOMIC_ACQUIRE))
		usleep(10);
	cr_expect(eq(uint, asked.n_answers, 1));
	return pthread_equal(asked.teller, pthread_self());
}

static unsigned int count_told(struct fixture *fixture)
{
	unsigned int n = 0;

	cr_assert(eq(int, fixture_ask(fixture, memory, -1, NULL), 0));
	for (unsigned int i = 0; i < N_QUESTIONS; i++)
		n += ask_and_look(fixture);
	return n;
}

Test(look, the_thread_that_asked_takes_answers_itself)
{
	struct fixture fixture;

	start(&fixture, "honest");
	cr_expect(gt(uint, count_told(&fixture), 0));
	fixture_stop(&fixture);
}

Test(look, with_few_processors_nobody_looks)
{
	struct fixture fixture;

	n_cpus = LOOK_CPUS - 1;
	start(&fixture, "honest");
	cr_expect(eq(uint, count_told(&fixture), 0));
	cr_expect(eq(uint, n_glances, 0));
	fixture_stop(&fixture);
}

Test(look, who_has_asked_nobody_does_not_look)
{
	struct asked asked = { 0 };

	n_glances = 0;
	broker_look_begin();
	broker_look(is_answered, &asked);
	broker_look_end();
	cr_expect(eq(uint, n_glances, 0));
}

Test(look, after_looks_in_vain_nobody_looks_for_a_while)
{
	struct fixture fixture;
	struct asked asked[50];
	unsigned int n_looks = 0, most;
	int64_t begin;

	start(&fixture, "silent");
	begin = clock_ms();
	for (unsigned int i = 0; i < ARRAY_SIZE(asked); i++) {
		n_glances = 0;
		broker_look_begin();
		ask(&asked[i], &fixture);
		broker_look(is_answered, &asked[i]);
		broker_look_end();
		n_looks += n_glances > 0;
	}
	most = LOOK_VAIN + 1 +
	       (unsigned int)((clock_ms() - begin) * 1000000 / LOOK_PAUSE_NS);
	cr_expect(ge(uint, n_looks, LOOK_VAIN));
	cr_expect(le(uint, n_looks, most));
	cr_expect(lt(uint, n_looks, ARRAY_SIZE(asked)));
	fixture_stop(&fixture);
}

static void *looker_run(void *userdata)
{
	for (unsigned int i = 0; i < N_QUESTIONS; i++)
		ask_and_look(userdata);
	return NULL;
}

/* asked_done() checks that no answer is told after `ended`. */
Test(look, many_threads_may_look_while_the_worker_is_killed)
{
	for (unsigned int round = 0; round < 5; round++) {
		pthread_t threads[N_THREADS];
		struct fixture fixture;

		start(&fixture, "honest");
		for (unsigned int i = 0; i < N_THREADS; i++)
			pthread_create(&threads[i], NULL, looker_run, &fixture);
		cr_assert(eq(int, fixture_ask(&fixture, memory, -1, NULL), 0));
		usleep(round * 2000);
		channel_kill(fixture.channel);
		for (unsigned int i = 0; i < N_THREADS; i++)
			pthread_join(threads[i], NULL);
		fixture_stop(&fixture);
	}
}

/* An empty record looks like the end of the stream. */
Test(look, a_record_that_breaks_a_rule_ends_the_worker)
{
	static const char *const parts[] = { "empty", "short", "twice", "fd" };

	for (unsigned int i = 0; i < ARRAY_SIZE(parts); i++) {
		struct fixture fixture;
		const char *end;

		start(&fixture, parts[i]);
		for (unsigned int j = 0; j < 20 && !fixture_has_ended(&fixture); j++)
			ask_and_look(&fixture);
		end = fixture_wait_end(&fixture);
		/* Linux 6.16 sends no descriptor, and the worker gives up. */
		cr_expect(strstr(end, "broke the rules") || strstr(end, "gave up"),
			  "%s: %s", parts[i], end);
		fixture_stop(&fixture);
	}
}

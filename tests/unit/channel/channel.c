/* SPDX-License-Identifier: MIT */
/*
 * The channel against hostile workers (hostile.c): a worker may harm only itself.
 */
#include "channel/channel.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "unit/channel/channel_help.h"

#define N_SLOTS	       2
#define N_URGENT       600 /* more than their socket takes */
#define N_MANY	       5000
#define N_LAST_ANSWERS 200

TestSuite(channel, .timeout = 60);

static const struct wire_request memory = { .op = WIRE_MEMORY };
static const struct wire_request alloc = { .op = WIRE_ALLOC, .length = 4096 };

static void start_with_threads(struct fixture *fixture, const char *part,
			       unsigned int n_threads)
{
	fixture_start(fixture,
		      (struct channel_config){
			      .program = getenv("GPUMEM_HOSTILE"),
			      .driver = "none",
			      .name = part,
			      .mover = true,
			      .n_threads = n_threads,
		      },
		      N_SLOTS);
}

static void start(struct fixture *fixture, const char *part)
{
	start_with_threads(fixture, part, 2);
}

/* A single request to the hostile worker `part` ends it, with a reason that begins with
 * `reason`. */
static void expect_end(const char *part, struct wire_request request, const char *reason)
{
	struct fixture fixture;
	struct question question, late;
	const char *end;

	start(&fixture, part);
	question_ask(&question, &fixture, request, -1);
	question_wait(&question);
	end = fixture_wait_end(&fixture);
	cr_assert(eq(int, strncmp(end, reason, strlen(reason)), 0),
		  "'%s' does not begin with '%s'", end, reason);
	cr_assert(eq(int, channel_state(fixture.channel), CHANNEL_ENDED));
	cr_assert(eq(int, channel_pid(fixture.channel), 0));
	cr_assert(eq(u32, channel_pending(fixture.channel), 0));

	question_ask(&late, &fixture, request, -1);
	question_wait(&late);
	cr_assert(late.lost);
	cr_assert(eq(int, late.reply.error, EIO));
	cr_assert(eq(int, late.reply.call, -1));
	fixture_stop(&fixture);
}

static void expect_lost(const char *part, struct wire_request request, const char *reason)
{
	struct fixture fixture;
	struct question question;

	start(&fixture, part);
	question_ask(&question, &fixture, request, -1);
	question_wait(&question);
	cr_assert(question.lost);
	cr_assert(eq(int, question.reply.error, EIO));
	fixture_stop(&fixture);
	expect_end(part, request, reason);
}

Test(channel, question_is_answered)
{
	struct fixture fixture;
	struct wire_reply reply;

	start(&fixture, "honest");
	cr_assert(eq(int, fixture_ask(&fixture, memory, -1, &reply), 0));
	cr_assert(eq(u64, reply.value[0], 1));
	cr_assert(eq(u64, reply.value[1], 2));
	cr_assert(eq(int, channel_state(fixture.channel), CHANNEL_READY));
	cr_assert(gt(int, channel_pid(fixture.channel), 0));
	fixture_stop(&fixture);
}

Test(channel, error_of_the_driver_reaches_the_asker)
{
	struct fixture fixture;
	struct wire_reply reply;

	start(&fixture, "error");
	cr_assert(eq(int, fixture_ask(&fixture, memory, -1, &reply), ENOMEM));
	cr_assert(eq(int, reply.call, 5));
	cr_assert(eq(int, reply.result, 2));
	fixture_stop(&fixture);
}

Test(channel, more_questions_than_the_socket_takes_are_all_answered)
{
	static struct question questions[N_MANY];
	struct fixture fixture;

	start(&fixture, "honest");
	for (unsigned int i = 0; i < N_MANY; i++)
		question_ask(&questions[i], &fixture, memory, -1);
	for (unsigned int i = 0; i < N_MANY; i++) {
		question_wait(&questions[i]);
		cr_assert(eq(int, questions[i].reply.error, 0));
	}
	cr_assert(eq(u32, channel_pending(fixture.channel), 0));
	fixture_stop(&fixture);
}

Test(channel, descriptor_goes_along_and_is_closed_here)
{
	struct fixture fixture;
	struct wire_request map = { .op = WIRE_MAP,
				    .address = WIRE_DEVICE_BASE,
				    .length = 4096 };
	int fd;

	start(&fixture, "peek");
	fd = memfd_create("peek", MFD_CLOEXEC);
	cr_assert(eq(int, (int)write(fd, "gpumem", 6), 6));
	cr_assert(eq(int, fixture_ask(&fixture, map, fd, NULL), 0));
	cr_assert(eq(int, fcntl(fd, F_GETFD), -1));
	fixture_stop(&fixture);
}

Test(channel, worker_gets_its_descriptors_and_no_more)
{
	struct fixture fixture;

	start(&fixture, "inventory");
	cr_assert(eq(int, fixture_ask(&fixture, memory, -1, NULL), 0));
	fixture_stop(&fixture);
}

Test(channel, question_that_breaks_a_rule_is_not_sent)
{
	struct fixture fixture;
	struct wire_request bad = { .op = WIRE_MEMORY, .length = 1 };

	start(&fixture, "honest");
	cr_assert(eq(int, fixture_ask(&fixture, bad, -1, NULL), EINVAL));
	cr_assert(eq(int, fixture_ask(&fixture, memory, -1, NULL), 0));
	fixture_stop(&fixture);
}

Test(channel, closed_descriptor_is_refused_and_the_worker_stays)
{
	struct fixture fixture;
	struct wire_request map = { .op = WIRE_MAP,
				    .address = WIRE_DEVICE_BASE,
				    .length = 4096 };

	start(&fixture, "honest");
	cr_assert(eq(int, fixture_ask(&fixture, memory, -1, NULL), 0));
	cr_assert(eq(int, fixture_ask(&fixture, map, 9999, NULL), EBADF));
	cr_assert(eq(int, fixture_ask(&fixture, memory, -1, NULL), 0));
	fixture_stop(&fixture);
}

Test(channel, stop_lets_the_worker_finish)
{
	struct fixture fixture;
	struct question question;

	start(&fixture, "honest");
	question_ask(&question, &fixture, memory, -1);
	channel_stop(fixture.channel, 30);
	cr_assert(eq(str, (char *)fixture_wait_end(&fixture), "was stopped"));
	question_wait(&question);
	cr_assert(not(question.lost));
	fixture_stop(&fixture);
}

Test(channel, question_after_stop_is_lost)
{
	struct fixture fixture;
	struct question question;

	start(&fixture, "honest");
	channel_stop(fixture.channel, 30);
	question_ask(&question, &fixture, memory, -1);
	question_wait(&question);
	cr_assert(question.lost);
	fixture_stop(&fixture);
}

Test(channel, worker_that_does_not_stop_is_killed)
{
	struct fixture fixture;

	start(&fixture, "stopped");
	question_ask(&(struct question){ 0 }, &fixture, memory, -1);
	channel_stop(fixture.channel, 0);
	cr_assert(eq(str, (char *)fixture_wait_end(&fixture), "did not stop in time"));
	fixture_stop(&fixture);
}

Test(channel, stopped_worker_blocks_nobody)
{
	static struct question questions[N_MANY];
	struct fixture fixture;

	start(&fixture, "stopped");
	for (unsigned int i = 0; i < N_MANY; i++)
		question_ask(&questions[i], &fixture, memory, -1);
	cr_assert(eq(u32, channel_pending(fixture.channel) >= N_MANY, 1));
	channel_kill(fixture.channel);
	for (unsigned int i = 0; i < N_MANY; i++) {
		question_wait(&questions[i]);
		cr_assert(questions[i].lost);
	}
	cr_assert(eq(str, (char *)fixture_wait_end(&fixture), "was killed by signal 9"));
	fixture_stop(&fixture);
}

static int64_t processor_ms(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

Test(channel, urgent_questions_wait_for_room_in_their_socket)
{
	static struct question questions[N_URGENT];
	const struct wire_request save = { .op = WIRE_SAVE,
					   .address = 4096,
					   .length = 1 };
	struct fixture fixture;
	int64_t used;

	start(&fixture, "stopped");
	for (unsigned int i = 0; i < N_URGENT; i++)
		question_ask(&questions[i], &fixture, save,
			     memfd_create("saved", MFD_CLOEXEC));
	used = processor_ms();
	nanosleep(&(struct timespec){ 0, 500000000 }, NULL);
	cr_assert(lt(i64, processor_ms() - used, 100));
	channel_kill(fixture.channel);
	for (unsigned int i = 0; i < N_URGENT; i++)
		question_wait(&questions[i]);
	fixture_stop(&fixture);
}

Test(channel, freeing_a_link_answers_what_is_open)
{
	struct fixture fixture;
	struct question question;

	start(&fixture, "silent");
	question_ask(&question, &fixture, memory, -1);
	fixture_stop(&fixture);
	cr_assert(eq(u32, question.n_answers, 1));
	cr_assert(question.lost);
}

Test(channel, channel_is_freed_at_once)
{
	struct fixture fixture;

	start(&fixture, "honest");
	fixture_stop(&fixture);
}

Test(channel, killing_before_the_start_holds)
{
	struct fixture fixture;

	start(&fixture, "honest");
	channel_kill(fixture.channel);
	cr_assert(eq(str, (char *)fixture_wait_end(&fixture), "was killed by signal 9"));
	fixture_stop(&fixture);
}

Test(channel, missing_program_shows_as_the_end)
{
	struct fixture fixture;
	struct question question;

	fixture_start(&fixture,
		      (struct channel_config){ .program = "/nowhere/gpumem-worker",
					       .driver = "none",
					       .name = "nobody",
					       .n_threads = 1 },
		      N_SLOTS);
	question_ask(&question, &fixture, memory, -1);
	question_wait(&question);
	cr_assert(question.lost);
	cr_assert(eq(str, (char *)fixture_wait_end(&fixture),
		     "could not be started: No such file or directory"));
	fixture_stop(&fixture);
}

Test(channel, worker_killed_from_outside_is_noticed)
{
	struct fixture fixture;
	struct question question;

	start(&fixture, "silent");
	question_ask(&question, &fixture, memory, -1);
	while (channel_state(fixture.channel) == CHANNEL_STARTING)
		sched_yield();
	kill(channel_pid(fixture.channel), SIGTERM);
	question_wait(&question);
	cr_assert(question.lost);
	cr_assert(eq(str, (char *)fixture_wait_end(&fixture), "was killed by signal 15"));
	fixture_stop(&fixture);
}

Test(channel, failed_hello_says_why)
{
	expect_lost("hello-failure", memory,
		    "can't work: cuInit failed: CUDA_ERROR_NO_DEVICE");
}

/* A receiver may hold the last answer while another receiver already sees the end. */
Test(channel, last_answer_counts_however_soon_the_end_follows)
{
	for (unsigned int i = 0; i < N_LAST_ANSWERS; i++) {
		struct fixture fixture;
		const char *end;

		start_with_threads(&fixture, "hello-failure", 8);
		end = fixture_wait_end(&fixture);
		cr_assert(eq(int, strncmp(end, "can't work", 10), 0), "round %u: %s", i,
			  end);
		fixture_stop(&fixture);
	}
}

Test(channel, worker_of_another_version_is_refused)
{
	expect_lost("hello-version", memory, "broke the rules of the wire: a reply with");
}

Test(channel, exit_before_hello_is_noticed)
{
	expect_lost("hello-exit", memory, "exited with status 3");
}

Test(channel, worker_that_never_greets_can_be_stopped)
{
	struct fixture fixture;
	struct question question;

	start(&fixture, "hello-never");
	question_ask(&question, &fixture, memory, -1);
	channel_stop(fixture.channel, 0);
	question_wait(&question);
	cr_assert(question.lost);
	fixture_stop(&fixture);
}

Test(channel, early_exit_is_noticed)
{
	expect_lost("exit", memory, "exited with status 3");
}

Test(channel, worker_whose_child_keeps_the_socket_is_noticed)
{
	expect_lost("orphan", memory, "exited with status 5");
}

Test(channel, worker_that_closes_its_socket_is_killed)
{
	expect_lost("close", memory, "closed its socket and lived on");
}

/* Told earlier, callers would ask the same dying worker again and again. */
Test(channel, question_to_a_dying_worker_is_lost_when_it_is_gone)
{
	static struct question questions[100];
	struct fixture fixture;
	unsigned int early = 0;

	start(&fixture, "close");
	for (int i = 0; i < 100; i++) {
		question_ask(&questions[i], &fixture, memory, -1);
		usleep(2000);
		pthread_mutex_lock(&fixture.lock);
		early += questions[i].n_answers &&
			 channel_state(fixture.channel) != CHANNEL_ENDED;
		pthread_mutex_unlock(&fixture.lock);
	}
	for (int i = 0; i < 100; i++) {
		question_wait(&questions[i]);
		cr_assert(questions[i].lost);
	}
	cr_assert(eq(uint, early, 0));
	fixture_stop(&fixture);
}

Test(channel, short_record_ends_the_worker)
{
	expect_lost("short", memory,
		    "broke the rules of the wire: a record with a wrong size");
}

Test(channel, long_record_ends_the_worker)
{
	expect_lost("long", memory,
		    "broke the rules of the wire: a record with a wrong size");
}

Test(channel, text_behind_an_answer_without_text_ends_the_worker)
{
	expect_lost("text", memory,
		    "broke the rules of the wire: a reply with text that it has no use");
}

/* They become part of an event, and of a warning. */
Test(channel, last_words_are_the_reason_of_the_end)
{
	expect_lost("last-words", memory, "gave up: can't go on' run=7\\x0a");
}

Test(channel, empty_record_ends_the_worker)
{
	expect_lost("empty", memory, "");
}

Test(channel, garbage_ends_the_worker)
{
	expect_lost("garbage", memory,
		    "broke the rules of the wire: a reply with no question to it");
}

Test(channel, reply_to_no_question_ends_the_worker)
{
	expect_lost("stranger", memory,
		    "broke the rules of the wire: a reply with no question to it");
}

Test(channel, second_reply_ends_the_worker)
{
	expect_end("twice", memory,
		   "broke the rules of the wire: a reply with no question to it");
}

Test(channel, flood_of_replies_ends_the_worker)
{
	expect_end("flood", memory,
		   "broke the rules of the wire: a reply with no question to it");
}

/* Where Linux can, it refuses to send the descriptor. */
Test(channel, descriptor_in_a_reply_ends_the_worker)
{
	int sockets[2];
	bool refused;

	cr_assert(eq(int, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0));
	refused = setsockopt(sockets[0], SOL_SOCKET, 83 /* SO_PASSRIGHTS */, &(int){ 0 },
			     sizeof(int)) == 0;
	expect_lost("fd", memory,
		    refused ? "gave up: Operation not permitted"
			    : "broke the rules of the wire: a record with a descriptor");
	close(sockets[0]);
	close(sockets[1]);
}

Test(channel, more_free_than_total_ends_the_worker)
{
	expect_lost("huge", memory,
		    "broke the rules of the wire: a reply with more free");
}

Test(channel, impossible_address_ends_the_worker)
{
	expect_lost("huge", alloc,
		    "broke the rules of the wire: a reply with an impossible address");
}

Test(channel, address_in_a_dealt_range_ends_the_worker)
{
	expect_lost("inside", alloc,
		    "broke the rules of the wire: a reply with an address");
}

Test(channel, call_that_does_not_exist_ends_the_worker)
{
	expect_lost("badcall", memory,
		    "broke the rules of the wire: a reply with a call");
}

Test(channel, worker_cannot_shrink_the_staging_area)
{
	struct fixture fixture;

	start(&fixture, "truncate");
	cr_assert(eq(int,
		     fixture_ask(&fixture,
				 (struct wire_request){ .op = WIRE_FREE, .address = 1 },
				 -1, NULL),
		     EPERM));
	memset(fixture.staging.memory, 1, fixture.staging.size);
	fixture_stop(&fixture);
}

Test(channel, staging_area_can_be_read_while_the_worker_writes_it)
{
	struct fixture fixture;
	struct wire_request read = { .op = WIRE_READ,
				     .address = WIRE_DEVICE_BASE,
				     .length = 4096,
				     .offset = staging_offset(0) };
	volatile uint8_t *payload;
	unsigned int sum = 0;

	start(&fixture, "scribble");
	cr_assert(eq(int, fixture_ask(&fixture, read, -1, NULL), 0));
	payload = staging_payload(&fixture.staging, 0);
	for (unsigned int i = 0; i < WIRE_TRANSFER_MAX; i++)
		sum += payload[i];
	cr_log_info("sum %u", sum);
	fixture_stop(&fixture);
}

struct asker {
	struct fixture *fixture;
	struct question questions[200];
};

static void *asker_run(void *userdata)
{
	struct asker *asker = userdata;

	for (unsigned int i = 0; i < ARRAY_SIZE(asker->questions); i++) {
		question_ask(&asker->questions[i], asker->fixture, memory, -1);
		if (i % 3 == 0)
			question_wait(&asker->questions[i]);
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(asker->questions); i++)
		question_wait(&asker->questions[i]);
	return NULL;
}

Test(channel, many_threads_may_ask_while_the_worker_is_killed)
{
	static struct asker askers[8];
	pthread_t threads[ARRAY_SIZE(askers)];
	struct fixture fixture;

	start(&fixture, "honest");
	for (unsigned int i = 0; i < ARRAY_SIZE(askers); i++) {
		askers[i].fixture = &fixture;
		pthread_create(&threads[i], NULL, asker_run, &askers[i]);
	}
	cr_assert(eq(int, fixture_ask(&fixture, memory, -1, NULL), 0));
	channel_kill(fixture.channel);
	for (unsigned int i = 0; i < ARRAY_SIZE(askers); i++)
		pthread_join(threads[i], NULL);
	fixture_stop(&fixture);
}

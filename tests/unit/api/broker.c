/* SPDX-License-Identifier: MIT */
/* The whole broker on the software GPU: faults that show only when its parts meet. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "control/line.h"
#include "control/usage.h"
#include "gpumem/lease.h"
#include "memops/lease_file.h"
#include "memory/reclaim.h"
#include "model/allocation.h"
#include "model/owner.h"
#include "model/registry.h"
#include "unit/broker_help.h"

TestSuite(broker, .timeout = 60);

static pid_t owner_pid(struct broker *broker)
{
	struct owner *owner;
	pid_t pid = 0;

	pthread_mutex_lock(&broker->registry->lock);
	owner = owner_get(broker->registry, nobody_special.uid, nobody_special.gid);
	if (owner->worker)
		pid = worker_pid(owner->worker);
	pthread_mutex_unlock(&broker->registry->lock);
	return pid;
}

Test(broker, bytes_written_are_read_and_all_comes_back)
{
	struct broker *broker = broker_start("64M", NULL);
	char bytes[8] = "";
	struct token x;

	cr_assert(eq(int, command_say(broker, "alloc", "x 4096"), 0));
	x = allocation_named(broker, "x");
	cr_assert(eq(int, (int)data_write(broker, x, 100, "gpumem", 6), 6));
	cr_assert(eq(int, (int)data_read(broker, x, 99, bytes, 8), 8));
	cr_assert(eq(int, memcmp(bytes, "\0gpumem\0", 8), 0));
	broker_end(broker);
}

Test(broker, refused_write_gives_its_buffer_back)
{
	struct broker *broker = broker_start("64M", NULL);
	struct buffer many[64], *last = &many[63];
	struct answer answer;
	struct writer x;

	cr_assert(eq(int, command_say(broker, "alloc", "x 4096"), 0));
	broker_writer_init(broker, &x, allocation_named(broker, "x"));
	for (int i = 0; i < 64; i++)
		cr_assert(eq(int, broker_buffer_get(broker, &many[i]), 0));
	cr_assert(lt(int, last->slot, 0));
	broker_shutdown(broker);
	broker_write(broker, &x, &nobody_special, 0, last->memory + 80, 1, last,
		     answer_expect(&answer));
	cr_assert(eq(int, answer_get(&answer), -ESTALE));
	broker_write(broker, &x, &nobody_special, 0, many[0].memory + 80, 1, &many[0],
		     answer_expect(&answer));
	cr_assert(eq(int, answer_get(&answer), -ESTALE));
	for (int i = 0; i < 64; i++)
		broker_buffer_put(broker, &many[i]);
	broker_end(broker);
}

/* An allocation waits for memory on its way back; a signal ends the wait. */
Test(broker, interrupted_allocation_that_waits_for_memory_is_given_up)
{
	static const char *const kinds[] = { "device", "direct", "async" };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct broker *broker = broker_start("32M", NULL);
		struct control *control;
		struct answer answer;
		char line[64];
		struct token x;

		cr_assert(
			eq(int, command_say(broker, "alloc", "warm 1M kind=direct"), 0));
		cr_assert(eq(int, command_say(broker, "alloc", "x 28M"), 0));
		x = allocation_named(broker, "x");
		cr_assert(eq(int, (int)data_write(broker, x, 0, "y", 1), 1));
		mover_signal(broker, SIGSTOP);
		cr_assert(eq(int, command_say(broker, "free", "x"), 0));
		control = control_open(broker, "alloc");
		snprintf(line, sizeof(line), "y 28M kind=%s\n", kinds[i]);
		control_write(control, 42, line, strlen(line), answer_expect(&answer));
		for (bool parked = false; !parked; usleep(1000)) {
			pthread_mutex_lock(&broker->registry->lock);
			parked = broker->reclaim->waiters[0];
			pthread_mutex_unlock(&broker->registry->lock);
		}
		broker_interrupt(broker, &answer.wait);
		cr_assert(eq(int, answer_get(&answer), -EINTR));
		pthread_mutex_lock(&broker->registry->lock);
		cr_assert(eq(ptr, broker->reclaim->waiters[0], NULL));
		pthread_mutex_unlock(&broker->registry->lock);
		/* The name is free. */
		cr_assert(eq(int, command_say(broker, "alloc", "y 1K kind=host"), 0));
		mover_signal(broker, SIGCONT);
		control_free(control);
		broker_settle(broker);
		cr_assert(eq(u64, broker->registry->n_allocations, 2));
		broker_end(broker);
	}
}

Test(broker, allocations_that_wait_for_freed_memory_are_a_share)
{
	struct broker *broker = broker_start("32M", NULL);
	struct registry *registry = broker->registry;
	struct token x;

	cr_assert(eq(int, command_say(broker, "alloc", "warm 1M kind=direct"), 0));
	cr_assert(eq(int, command_say(broker, "alloc", "x 28M"), 0));
	x = allocation_named(broker, "x");
	cr_assert(eq(int, (int)data_write(broker, x, 0, "y", 1), 1));
	mover_signal(broker, SIGSTOP);
	cr_assert(eq(int, command_say(broker, "free", "x"), 0));
	pthread_mutex_lock(&registry->lock);
	cr_assert(eq(
		int,
		share_take(owner_find(registry, nobody_special.uid), SHARE_WAITS, 1024),
		0));
	pthread_mutex_unlock(&registry->lock);
	cr_expect(eq(int, command_say(broker, "alloc", "y 28M"), -EBUSY));
	pthread_mutex_lock(&registry->lock);
	share_give(owner_find(registry, nobody_special.uid), SHARE_WAITS, 1024);
	pthread_mutex_unlock(&registry->lock);
	mover_signal(broker, SIGCONT);
	broker_end(broker);
}

/* A free waits for earlier work, and the next allocation waits for the free. */
Test(broker, memory_of_a_busy_allocation_can_be_had_after_its_free)
{
	struct broker *broker = broker_start("32M", NULL);
	struct control *control = control_open(broker, "alloc");
	struct answer answer;

	cr_assert(eq(int, command_say(broker, "alloc", "x 24M"), 0));
	mover_signal(broker, SIGSTOP);
	cr_assert(eq(int, command_say(broker, "fill", "x u8:1 wait=0"), 0));
	cr_assert(eq(int, command_say(broker, "free", "x"), 0));
	control_write(control, 42, "y 24M\n", 6, answer_expect(&answer));
	mover_signal(broker, SIGCONT);
	cr_assert(eq(int, answer_get(&answer), 0));
	control_free(control);
	broker_end(broker);
}

/* The copy goes through the host. The source dies while the copy waits for a slot. */
Test(broker, copy_whose_source_is_lost_while_it_waits_for_a_slot_gives_the_slot_back)
{
	enum { N = 64 };
	static struct answer answers[N];
	const struct caller other = { .uid = 1001, .gid = 1001, .pid = 43 };
	struct broker *broker = broker_start("64M", NULL);
	struct answer answer, copied;
	struct control *alloc;
	struct token source;
	struct writer target;
	const struct verb *verbs;
	size_t n;

	verbs = verb_table(&n);
	cr_assert(eq(int, command_say(broker, "alloc", "source 4M kind=direct"), 0));
	cr_assert(eq(int, control_new(&alloc, broker, &verbs[0], TOKEN_NONE, &other), 0));
	cr_assert(eq(str, (char *)verbs[0].name, "alloc"));
	cr_assert(gt(int, (int)control_say(alloc, "target 4M mode=666\n"), 0));
	control_free(alloc);
	source = allocation_named(broker, "source");
	broker_writer_init(broker, &target, allocation_named(broker, "target"));
	cr_assert(eq(int, command_say(broker, "alloc", "busy 4M mode=666"), 0));
	cr_assert(eq(int, command_say(broker, "fill", "busy u8:1"), 0));
	cr_assert(eq(int, command_say(broker, "fill", "target u8:1"), 0));

	mover_signal(broker, SIGSTOP);
	/* A user has fewer turns at the mover than the mover has slots. */
	for (int i = 0; i < N; i++) {
		const struct caller reader = { .uid = 2000 + (uid_t)i / 8, .pid = 44 };

		broker_read(broker, allocation_named(broker, "busy"), &reader, 0, 4096,
			    answer_expect(&answers[i]));
	}
	broker_copy_range(broker, source, 0, &target, 0, 4096, &nobody_special,
			  answer_expect(&copied));
	kill(owner_pid(broker), SIGKILL);
	while (owner_pid(broker))
		usleep(1000);
	for (bool lost = false; !lost; usleep(1000)) {
		pthread_mutex_lock(&broker->registry->lock);
		lost = allocation_of(
			       folder_find(&broker->registry->allocation_root, "source"))
			       ->state == ALLOCATION_LOST;
		pthread_mutex_unlock(&broker->registry->lock);
	}
	mover_signal(broker, SIGCONT);
	for (int i = 0; i < N; i++)
		cr_assert(eq(int, answer_get(&answers[i]), 0));
	/* The copy is answered when its turn has come. */
	cr_assert(eq(int, answer_get(&copied), 0));
	broker_sync(broker, &target, &nobody_special, answer_expect(&answer));
	cr_assert(lt(int, answer_get(&answer), 0));
	broker_end(broker);
}

static void nothing(void *userdata)
{
	(void)userdata;
}

static uint64_t operations_of(struct broker *broker, const struct caller *caller)
{
	uint64_t held;

	pthread_mutex_lock(&broker->registry->lock);
	held = owner_get(broker->registry, caller->uid, caller->gid)
		       ->shares.held[SHARE_OPERATIONS];
	pthread_mutex_unlock(&broker->registry->lock);
	return held;
}

/* Else a reader of public memory could use up the share of its owner. */
Test(broker, leaseholder_is_charged_for_holds_and_reads_of_a_lease)
{
	const struct caller other = { .uid = 1001, .gid = 1001, .pid = getpid() };
	struct broker *broker = broker_start("64M", NULL);
	const struct lease_name none = { 0 };
	struct answer held, waits, reads;
	struct lease *first, *second;
	struct token x;

	cr_assert(eq(int, command_say(broker, "alloc", "x 4M mode=666"), 0));
	x = allocation_named(broker, "x");
	cr_assert(eq(
		int,
		broker_lease_open(broker, x, &other, true, none, nothing, NULL, &first),
		0));
	cr_assert(eq(
		int,
		broker_lease_open(broker, x, &other, true, none, nothing, NULL, &second),
		0));
	broker_lease_hold(first, &other, GPUMEM_HOLD_WRITE, answer_expect(&held));
	cr_assert(eq(int, answer_get(&held), 0));
	broker_lease_hold(second, &other, GPUMEM_HOLD_WRITE, answer_expect(&waits));
	broker_lease_read(second, answer_expect(&reads));
	/* The hold, the hold that waits, the read behind them. */
	cr_expect(eq(u64, operations_of(broker, &other), 3));
	cr_expect(eq(u64, operations_of(broker, &nobody_special), 0));
	broker_lease_close(first);
	cr_assert(eq(int, answer_get(&waits), 0));
	broker_lease_close(second);
	cr_assert(eq(int, answer_get(&reads), 0));
	broker_end(broker);
}

/* A line has room for all words of a usage. */
Test(broker, usages_fit_into_a_line)
{
	struct usage_operand operand;
	const struct verb *verbs;
	struct line line;
	size_t n;

	verbs = verb_table(&n);
	for (size_t i = 0; i < n; i++) {
		const char *const usages[] = { verbs[i].usage, verbs[i].object_usage };

		for (size_t j = 0; j < ARRAY_SIZE(usages); j++) {
			_cleanup_text_ struct text keys = TEXT_INIT;
			unsigned int n_keys = 1;

			if (!usages[j])
				continue;
			usage_list_keys(usages[j], &keys);
			for (size_t c = 0; c < keys.length; c++)
				n_keys += keys.data[c] == ',';
			cr_expect(le(u32, n_keys, ARRAY_SIZE(line.keys)));
			cr_expect(not(usage_operand(usages[j], ARRAY_SIZE(line.operands),
						    &operand)));
		}
	}
}

/* The work queue makes host memory page by page, after the waiter has given up. */
Test(broker, end_waits_for_host_memory_that_is_being_made)
{
	struct broker *broker = broker_start("64M", NULL);
	struct control *control = control_open(broker, "alloc");
	_cleanup_text_ struct text why = TEXT_INIT;
	struct answer answer;

	control_write(control, 42, "x 512M kind=host\n", 17, answer_expect(&answer));
	broker_interrupt(broker, &answer.wait);
	(void)answer_get(&answer);
	control_free(control);
	cr_assert(eq(int, broker_free(broker, &why), 0), "%s", text_string(&why));
}

/* Durable memory, and work on such memory, outlive the mover. */
Test(broker, work_of_a_mover_that_dies_is_done_by_the_next)
{
	enum { N = 200 };
	static struct answer answers[N];
	struct broker *broker = broker_start("64M", NULL);
	struct token x;
	char bytes[4];

	cr_assert(eq(int, command_say(broker, "alloc", "x 4M"), 0));
	x = allocation_named(broker, "x");
	cr_assert(eq(int, (int)data_write(broker, x, 0, "abcd", 4), 4));
	for (int i = 0; i < 5; i++) {
		for (int j = 0; j < N; j++) {
			if (j == N / 2)
				mover_signal(broker, SIGKILL);
			broker_read(broker, x, &nobody_special, 0, 4096,
				    answer_expect(&answers[j]));
		}
		for (int j = 0; j < N; j++)
			cr_assert(eq(int, answer_get(&answers[j]), 0));
	}
	cr_assert(eq(int, (int)data_read(broker, x, 0, bytes, 4), 4));
	cr_assert(eq(int, memcmp(bytes, "abcd", 4), 0));
	broker_end(broker);
}

Test(broker, direct_memory_is_lost_with_its_worker_and_can_be_freed)
{
	struct broker *broker = broker_start("64M", NULL);
	struct answer answer, synced;
	struct writer writer;
	struct token x;

	cr_assert(eq(int, command_say(broker, "alloc", "x 4M kind=direct"), 0));
	x = allocation_named(broker, "x");
	broker_writer_init(broker, &writer, x);
	kill(owner_pid(broker), SIGKILL);
	/* Refused, or queued before the end was noticed. */
	broker_zero(broker, &writer, &nobody_special, 0, 4096, answer_expect(&answer));
	broker_sync(broker, &writer, &nobody_special, answer_expect(&synced));
	cr_assert(lt(int, MIN(answer_get(&answer), answer_get(&synced)), 0));
	while (owner_pid(broker))
		usleep(1000);
	broker_read(broker, x, &nobody_special, 0, 4096, answer_expect(&answer));
	cr_assert(eq(int, answer_get(&answer), -ESTALE));
	cr_assert(eq(int, command_say(broker, "free", "x"), 0));
	broker_settle(broker);
	cr_assert(eq(u64, broker->registry->bytes, 0));
	broker_end(broker);
}

Test(broker, allocation_until_close_goes_with_its_descriptor)
{
	struct broker *broker = broker_start("64M", NULL);
	struct control *control = control_open(broker, "alloc");
	struct token token;

	cr_assert(gt(int, (int)control_say(control, "x 1M until=close\ny 1M\n"), 0));
	cr_assert(eq(int, command_say(broker, "free", "y"), 0));
	(void)allocation_named(broker, "x");
	control_free(control);
	cr_assert(eq(int, object_find(broker, OBJECT_ALLOCATION, TOKEN_NONE, "x", &token),
		     -ENOENT));
	broker_settle(broker);
	cr_assert(eq(u64, broker->registry->bytes, 0));
	broker_end(broker);
}

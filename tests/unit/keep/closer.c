/* SPDX-License-Identifier: MIT */
/*
 * A user may put millions of locks (fcntl(2)) on some files, and each close looks at all
 * of them. The keeper answers meanwhile. The linker puts the close of the test in front
 * of the real one: the close of one descriptor lasts until the test lets it go on.
 */
#include "keep/keeper.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(closer, .timeout = 60);

static int locked = -1;	 /* its next close lasts; atomic */
static int lets_go = -1; /* an eventfd */

int __real_close(int fd);
int __wrap_close(int fd);

int __wrap_close(int fd)
{
	eventfd_t value;
	int number = fd;

	if (fd >= 0 && __atomic_compare_exchange_n(&locked, &number, -1, false,
						   __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		(void)eventfd_read(lets_go, &value);
	return __real_close(fd);
}

static struct keeper keeper;
static struct child child;
static int broker; /* the broker's end of the socket */

static void start(void)
{
	int ends[2];

	cr_assert(eq(int, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0));
	child = (struct child){ .socket = ends[0] };
	broker = ends[1];
	lets_go = eventfd(0, 0);
	for (size_t i = 0; i < N_CLOSERS; i++)
		cr_assert(eq(int, closer_start(&keeper.closers[i]), 0));
}

static void stop(void)
{
	eventfd_write(lets_go, 1);
	for (size_t i = 0; i < N_CLOSERS; i++)
		closer_end(&keeper.closers[i]);
	child_close(&keeper, &child);
	close(broker);
	close(lets_go);
}

static struct keep_key key_of(uint32_t kind, uint32_t number)
{
	return (struct keep_key){ kind, number, 1 };
}

static int keep(struct keep_key key)
{
	int fd = eventfd(0, 0);

	keeper_keep(&keeper, key, fd);
	return fd;
}

static void keep_locked(struct keep_key key)
{
	__atomic_store_n(&locked, keep(key), __ATOMIC_RELAXED);
}

static void say(uint32_t word, struct keep_key key)
{
	cr_assert(eq(int, keep_send(broker, word, key, -1), 0));
	cr_assert(child_hear(&keeper, &child));
}

static void expect_answer(uint32_t number)
{
	struct keep_message answer = { 0 };
	int fd;

	cr_assert(eq(int, keep_receive(broker, 0, &answer, &fd), 0));
	cr_expect(eq(u32, answer.word, KEEP_DROP));
	cr_expect(eq(u32, answer.key.number, number));
}

static bool is_answered(void)
{
	struct pollfd end = { .fd = broker, .events = POLLIN };

	return poll(&end, 1, 0) > 0;
}

Test(closer, others_are_closed_and_answered_meanwhile, .init = start, .fini = stop)
{
	keep_locked(key_of(KEEP_BLOCK, 1));
	keep(key_of(KEEP_BLOCK, 2));
	say(KEEP_DROP_LATE, key_of(KEEP_BLOCK, 1));
	say(KEEP_DROP, key_of(KEEP_BLOCK, 2));
	expect_answer(2);
	say(KEEP_DROP, (struct keep_key){ 0 });
	expect_answer(0);
	cr_expect(not(is_answered()));
	eventfd_write(lets_go, 1);
	expect_answer(1);
}

/* Anybody may put locks on a process. */
Test(closer, forgotten_processes_keep_nobody, .init = start, .fini = stop)
{
	keep_locked(key_of(KEEP_LIFETIME, 1));
	keep(key_of(KEEP_PROCESS, 2));
	keep(key_of(KEEP_BLOCK, 3));
	say(KEEP_FORGET, key_of(KEEP_LIFETIME, 1));
	say(KEEP_FORGET, key_of(KEEP_PROCESS, 2));
	say(KEEP_DROP, key_of(KEEP_BLOCK, 3));
	expect_answer(3);
}

/* The socket of the next broker may have the number. */
Test(closer, a_dead_broker_is_not_answered, .init = start, .fini = stop)
{
	struct child dead = child;
	int ends[2];

	keep_locked(key_of(KEEP_BLOCK, 1));
	say(KEEP_DROP_LATE, key_of(KEEP_BLOCK, 1));
	close(broker);
	child_close(&keeper, &dead);
	cr_assert(eq(int, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0));
	cr_assert(eq(int, ends[0], child.socket));
	broker = ends[1];
	keep(key_of(KEEP_BLOCK, 2));
	eventfd_write(lets_go, 1);
	say(KEEP_DROP_LATE, key_of(KEEP_BLOCK, 2));
	expect_answer(2);
}

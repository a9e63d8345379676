/* SPDX-License-Identifier: MIT */
/*
 * The pace of answers to large writes. The case is the kernel; the linker replaces the
 * clock, which stands still until a case sets it on.
 */
#include "pace.h"

#include "base/clock.h"
#include "base/def.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define N_WRITERS 64
#define ALICE	  1001
#define BOB	  1002

static struct pace pace;
static int queue; /* stands for the kernel's; readable: a request waits */

/* ---- the clock ---- */

static uint64_t now_ns = NS_PER_S; /* atomic */

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time)
{
	uint64_t ns = __atomic_load_n(&now_ns, __ATOMIC_ACQUIRE);

	(void)clock;
	*ret_time = (struct timespec){ (time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S) };
	return 0;
}

static void pass_ns(uint64_t ns)
{
	__atomic_add_fetch(&now_ns, ns, __ATOMIC_RELEASE);
}

/* ---- answers ---- */

static struct {
	pthread_mutex_t lock;
	unsigned int n;
	struct fuse_out_header headers[2 * N_WRITERS];
} sent = { .lock = PTHREAD_MUTEX_INITIALIZER };

static ssize_t take(int fd, struct iovec *iov, int n)
{
	uint8_t bytes[64];
	size_t length = 0;

	(void)fd;
	for (int i = 0; i < n; i++) {
		memcpy(bytes + length, iov[i].iov_base, iov[i].iov_len);
		length += iov[i].iov_len;
	}
	pthread_mutex_lock(&sent.lock);
	memcpy(&sent.headers[sent.n++], bytes, sizeof(*sent.headers));
	pthread_mutex_unlock(&sent.lock);
	return (ssize_t)length;
}

static unsigned int n_sent(void)
{
	unsigned int n;

	pthread_mutex_lock(&sent.lock);
	n = sent.n;
	pthread_mutex_unlock(&sent.lock);
	return n;
}

static void until_sent(unsigned int n)
{
	while (n_sent() < n)
		usleep(1000);
}

/* Whether the write has an answer, with this error. */
static bool is_sent(uint64_t unique, int error)
{
	bool found = false;

	pthread_mutex_lock(&sent.lock);
	for (unsigned int i = 0; i < sent.n; i++)
		found |= sent.headers[i].unique == unique &&
			 sent.headers[i].error == error;
	pthread_mutex_unlock(&sent.lock);
	return found;
}

/* ---- requests ---- */

static void read_write(uint64_t unique, uid_t uid, uint32_t tid, uint32_t length)
{
	const struct fuse_in_header request = { .len = length,
						.opcode = FUSE_WRITE,
						.unique = unique,
						.uid = uid,
						.pid = tid };

	pace_note(&pace, &request);
}

static void answer(uint64_t unique, int error)
{
	struct fuse_write_out written = { .size = 1 << 20 };
	struct fuse_out_header header = { .error = error, .unique = unique };
	struct iovec iov[] = { { &header, sizeof(header) },
			       { &written, sizeof(written) } };
	int n = error ? 1 : 2;

	header.len = (uint32_t)(sizeof(header) + (error ? 0 : sizeof(written)));
	cr_assert(eq(long, pace_answer(&pace, queue, iov, n), header.len));
}

/* Each of so many threads writes. */
static void write_by(uid_t uid, uint32_t n_threads)
{
	for (uint32_t tid = 1; tid <= n_threads; tid++)
		read_write(uid * 1000UL + tid, uid, tid, 1 << 20);
	for (uint32_t tid = 1; tid <= n_threads; tid++)
		answer(uid * 1000UL + tid, 0);
}

static void setup(void)
{
	queue = eventfd(0, EFD_CLOEXEC);
	cr_assert(eq(int, pace_init(&pace, queue, take, NULL), 0));
}

static void teardown(void)
{
	pace_deinit(&pace);
	close(queue);
}

TestSuite(pace, .init = setup, .fini = teardown, .timeout = 60);

/* ---- cases ---- */

Test(pace, of_a_users_answers_a_few_are_out)
{
	write_by(ALICE, N_WRITERS);
	cr_expect(eq(uint, n_sent(), PACE_OUT));
}

Test(pace, answers_of_others_are_not_held)
{
	write_by(ALICE, N_WRITERS);
	write_by(BOB, PACE_OUT);
	write_by(0, 1);
	cr_expect(eq(uint, n_sent(), 2 * PACE_OUT + 1));
}

Test(pace, as_many_writers_as_may_be_out_are_never_held)
{
	for (unsigned int round = 1; round <= 10; round++) {
		write_by(ALICE, PACE_OUT);
		cr_assert(eq(uint, n_sent(), round * PACE_OUT));
	}
}

Test(pace, the_next_write_of_the_same_thread_sends_another)
{
	write_by(ALICE, N_WRITERS);
	read_write(1, ALICE, 2, 1 << 20);
	cr_expect(eq(uint, n_sent(), PACE_OUT + 1));
	answer(1, 0);
	cr_expect(eq(uint, n_sent(), PACE_OUT + 1), "the others come first");
}

/* So the many that begin together get to be a few. */
Test(pace, a_write_of_a_thread_that_waits_for_nothing_sends_none)
{
	write_by(ALICE, N_WRITERS);
	read_write(1, ALICE, N_WRITERS + 1, 1 << 20);
	cr_expect(eq(uint, n_sent(), PACE_OUT));
}

Test(pace, a_refused_write_is_answered_at_the_same_pace)
{
	write_by(ALICE, PACE_OUT);
	read_write(1, ALICE, N_WRITERS, 1 << 20);
	answer(1, -ENOSPC);
	cr_expect(eq(uint, n_sent(), PACE_OUT));
	read_write(2, ALICE, 1, 1 << 20);
	cr_expect(is_sent(1, -ENOSPC));
}

Test(pace, small_writes_and_other_answers_have_none)
{
	write_by(ALICE, N_WRITERS);
	read_write(1, ALICE, 1, PACE_LARGE - 1);
	answer(1, 0);
	answer(2, -ENOENT);
	cr_expect(eq(uint, n_sent(), PACE_OUT + 2));
}

Test(pace, all_are_sent_though_nobody_writes_again)
{
	write_by(ALICE, N_WRITERS);
	for (unsigned int n = 2 * PACE_OUT; n <= N_WRITERS; n += PACE_OUT) {
		pass_ns(PACE_NS);
		until_sent(n);
		cr_assert(eq(uint, n_sent(), n));
	}
}

/* The next write of the thread may be there. */
Test(pace, while_requests_wait_to_be_read_an_answer_is_out_for_longer)
{
	eventfd_write(queue, 1);
	write_by(ALICE, N_WRITERS);
	pass_ns(PACE_NS);
	/* Alice's time would have passed several times before Bob's. */
	write_by(BOB, N_WRITERS);
	pass_ns(PACE_BUSY_NS - PACE_NS);
	until_sent(3 * PACE_OUT);
	cr_assert(eq(uint, n_sent(), 3 * PACE_OUT));
	pass_ns(PACE_NS);
	until_sent(4 * PACE_OUT);
	cr_assert(eq(uint, n_sent(), 4 * PACE_OUT));
}

Test(pace, a_stop_sends_all_and_none_is_held_until_it_goes_on)
{
	write_by(ALICE, N_WRITERS - 1);
	read_write(1, ALICE, N_WRITERS, 1 << 20);
	pace_stop(&pace);
	cr_expect(eq(uint, n_sent(), N_WRITERS - 1));
	answer(1, 0);
	cr_expect(eq(uint, n_sent(), N_WRITERS));
	pace_go_on(&pace);
	pass_ns(PACE_BUSY_NS);
	write_by(BOB, N_WRITERS);
	cr_expect(eq(uint, n_sent(), N_WRITERS + PACE_OUT));
}

Test(pace, of_a_write_without_an_answer_nothing_is_left)
{
	read_write(1, ALICE, 1, 1 << 20);
	write_by(BOB, N_WRITERS);
	cr_expect(eq(uint, n_sent(), PACE_OUT));
}

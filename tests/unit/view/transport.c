/* SPDX-License-Identifier: MIT */
/*
 * The threads that take requests. A socket stands for the kernel. The linker replaces
 * sched_getaffinity(), so that there are as many processors as a case wants, and poll(),
 * by which a thread looks for a request, to count the looks.
 */
#include "transport.h"

#include "base/clock.h"
#include "base/def.h"
#include "base/look.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define N_REQUESTS 100

/* ---- a broker without memory ---- */

int broker_buffer_get(struct broker *broker, struct buffer *ret_buffer)
{
	(void)broker;
	(void)ret_buffer;
	return -ENOMEM;
}

void broker_buffer_put(struct broker *broker, struct buffer *buffer)
{
	(void)broker;
	(void)buffer;
	cr_assert_fail("no buffer was given out");
}

void broker_look_begin(void)
{
}

void broker_look_end(void)
{
}

/* ---- processors and looks ---- */

static int n_cpus = 16;
static unsigned int n_polls; /* atomic */

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cpus);
int __real_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cpus)
{
	(void)pid;
	(void)size;
	CPU_ZERO(cpus);
	for (int i = 0; i < n_cpus; i++)
		CPU_SET(i, cpus);
	return 0;
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	__atomic_add_fetch(&n_polls, 1, __ATOMIC_RELAXED);
	return __real_poll(fds, n, timeout);
}

/* ---- a session on a socket ---- */

static ssize_t socket_writev(int fd, struct iovec *iov, int n, void *userdata)
{
	(void)userdata;
	return writev(fd, iov, n);
}

#define LARGE	   65536
#define MEET_MS	   100
#define N_MEETINGS 50

/* A large read is held up, as by the copying of its bytes, until another thread reads. */
static struct {
	int on, n_inside, n_large, n_met; /* atomic */
	int several;			  /* atomic: were once inside together */
	sem_t second_sent;
} meeting;

static int count(int *number, int change)
{
	return __atomic_add_fetch(number, change, __ATOMIC_ACQ_REL);
}

/* The first of two large requests waits until the second one is behind it. */
static void meet(void)
{
	if (count(&meeting.n_large, 1) % 2) {
		sem_wait(&meeting.second_sent);
		return;
	}
	for (int i = 0; i < MEET_MS && count(&meeting.n_inside, 0) < 2; i++)
		usleep(1000);
	count(&meeting.n_met, count(&meeting.n_inside, 0) >= 2);
}

static ssize_t socket_read(int fd, void *bytes, size_t size, void *userdata)
{
	ssize_t n;

	(void)userdata;
	if (count(&meeting.n_inside, 1) > 1)
		count(&meeting.several, 1);
	n = read(fd, bytes, size);
	if (count(&meeting.on, 0) && n > LARGE)
		meet();
	count(&meeting.n_inside, -1);
	return n;
}

#define N_THREADS_SEEN 16
#define TAKES_LONG     2 /* node: its GETATTR and its reads wait for `enough` */
#define TAKES_A_MOMENT 3 /* node: its GETATTR takes 200 us */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t seen[N_THREADS_SEEN]; /* threads that have handled; lock */
static unsigned int n_seen;	       /* lock */
static sem_t enough;

static void note_thread(void)
{
	unsigned int i = 0;

	pthread_mutex_lock(&lock);
	while (i < n_seen && !pthread_equal(seen[i], pthread_self()))
		i++;
	if (i == n_seen && i < N_THREADS_SEEN)
		seen[n_seen++] = pthread_self();
	pthread_mutex_unlock(&lock);
}

static unsigned int threads_seen(void)
{
	unsigned int n;

	pthread_mutex_lock(&lock);
	n = n_seen;
	pthread_mutex_unlock(&lock);
	return n;
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
	(void)info;
	note_thread();
	if (ino == TAKES_LONG)
		sem_wait(&enough);
	if (ino == TAKES_A_MOMENT)
		usleep(200);
	fuse_reply_err(req, ENOSYS);
}

/* As handlers that copy the bytes themselves. */
static void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		    struct fuse_file_info *info)
{
	(void)offset;
	(void)info;
	if (!transport_is_put_off(TRANSPORT_BULK) && transport_is_in_the_way(size) &&
	    transport_put_off(TRANSPORT_BULK, 1)) {
		fuse_reply_none(req);
		return;
	}
	if (ino == TAKES_LONG)
		sem_wait(&enough);
	fuse_reply_err(req, ENOSYS);
}

/* Answers EBUSY if the transport has a free buffer, else ENOMEM. */
static void op_write(fuse_req_t req, fuse_ino_t ino, const char *bytes, size_t size,
		     off_t offset, struct fuse_file_info *info)
{
	(void)ino;
	(void)bytes;
	(void)size;
	(void)offset;
	(void)info;
	note_thread();
	fuse_reply_err(req, transport_buffer() ? EBUSY : ENOMEM);
}

static int n_ended; /* atomic */

static void on_answering(void *userdata)
{
	(void)userdata;
}

static void on_ended(void *userdata)
{
	(void)userdata;
	__atomic_add_fetch(&n_ended, 1, __ATOMIC_RELAXED);
}

struct kernel {
	int fd;
	struct fuse_session *session;
	struct transport *transport;
};

static void send_request(struct kernel *kernel, uint32_t opcode, uint64_t node,
			 const void *body, size_t size)
{
	struct fuse_in_header header = {
		.len = (uint32_t)(sizeof(header) + size),
		.opcode = opcode,
		.unique = node,
		.nodeid = node,
	};
	struct iovec iov[] = { { &header, sizeof(header) }, { (void *)body, size } };

	cr_assert_eq(writev(kernel->fd, iov, ARRAY_SIZE(iov)), header.len);
}

/* Returns: the error of the next answer, 0 or negative, and the node of the request. */
static int take_answer(struct kernel *kernel, uint64_t *ret_node)
{
	struct timeval limit = { .tv_sec = 10 };
	struct {
		struct fuse_out_header header;
		uint8_t body[4096];
	} answer;

	setsockopt(kernel->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	cr_assert_geq(read(kernel->fd, &answer, sizeof(answer)),
		      (ssize_t)sizeof(answer.header), "no answer: %s", strerror(errno));
	*ret_node = answer.header.unique;
	return answer.header.error;
}

/* Sends a request. Returns: the error of the answer, 0 or negative. */
static int ask(struct kernel *kernel, uint32_t opcode, const void *body, size_t size)
{
	uint64_t node;

	send_request(kernel, opcode, FUSE_ROOT_ID, body, size);
	return take_answer(kernel, &node);
}

static void kernel_begin(struct kernel *kernel)
{
	static const struct fuse_lowlevel_ops ops = { .getattr = op_getattr,
						      .read = op_read,
						      .write = op_write };
	static const struct fuse_custom_io io = { .writev = socket_writev,
						  .read = socket_read };
	const struct fuse_init_in init = { .major = FUSE_KERNEL_VERSION,
					   .minor = FUSE_KERNEL_MINOR_VERSION };
	char *argv[] = { (char *)"test" };
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	int fds[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	kernel->fd = fds[0];
	kernel->session = fuse_session_new(&args, &ops, sizeof(ops), NULL);
	cr_assert(kernel->session);
	cr_assert_eq(fuse_session_custom_io(kernel->session, &io, fds[1]), 0);
	cr_assert_eq(transport_new(&kernel->transport, kernel->session, NULL, NULL,
				   (struct transport_slow){ NULL, NULL }, on_answering,
				   on_ended, NULL),
		     0);
	cr_assert_eq(ask(kernel, FUSE_INIT, &init, sizeof(init)), 0);
}

static void kernel_end(struct kernel *kernel)
{
	transport_free(kernel->transport);
	fuse_session_destroy(kernel->session);
	close(kernel->fd);
}

/* ---- cases ---- */

Test(transport, without_memory_for_a_buffer_requests_are_answered)
{
	struct fuse_getattr_in getattr = { 0 };
	struct kernel kernel;

	kernel_begin(&kernel);
	for (int i = 0; i < N_REQUESTS; i++)
		cr_assert_eq(ask(&kernel, FUSE_GETATTR, &getattr, sizeof(getattr)),
			     -ENOSYS);
	cr_assert_eq(n_ended, 0);
	kernel_end(&kernel);
}

Test(transport, without_memory_for_a_buffer_a_write_has_none_to_take)
{
	struct {
		struct fuse_write_in write;
		uint8_t bytes[8];
	} write = { .write = { .size = sizeof(write.bytes) } };
	struct kernel kernel;

	kernel_begin(&kernel);
	for (int i = 0; i < N_REQUESTS; i++)
		cr_assert_eq(ask(&kernel, FUSE_WRITE, &write, sizeof(write)), -ENOMEM);
	cr_assert_eq(n_ended, 0);
	kernel_end(&kernel);
}

Test(transport, threads_whose_requests_do_not_end_do_not_live)
{
	struct fuse_getattr_in getattr = { 0 };
	struct kernel kernel;
	uint64_t node;

	sem_init(&enough, 0, 0);
	kernel_begin(&kernel);
	cr_assert(transport_lives(kernel.transport));
	cr_assert(transport_lives(kernel.transport), "nothing is asked");
	for (int i = 0; i < 5; i++)
		send_request(&kernel, FUSE_GETATTR, TAKES_LONG, &getattr,
			     sizeof(getattr));
	while (threads_seen() < 4)
		usleep(1000);
	cr_assert(transport_lives(kernel.transport), "four were read");
	cr_assert_not(transport_lives(kernel.transport), "and the fifth was not");
	for (int i = 0; i < 5; i++)
		sem_post(&enough);
	for (int i = 0; i < 5; i++)
		cr_assert_eq(take_answer(&kernel, &node), -ENOSYS);
	cr_assert(transport_lives(kernel.transport));
	kernel_end(&kernel);
}

/* One keeps a thread; the reads that come meanwhile keep none. */
Test(transport, large_reads_leave_the_threads_to_others)
{
	struct fuse_read_in large = { .size = 1 << 20 };
	struct fuse_getattr_in getattr = { 0 };
	struct kernel kernel;
	uint64_t node;

	sem_init(&enough, 0, 0);
	kernel_begin(&kernel);
	send_request(&kernel, FUSE_GETATTR, TAKES_LONG, &getattr, sizeof(getattr));
	while (threads_seen() < 1)
		usleep(1000);
	for (int i = 0; i < 5; i++)
		send_request(&kernel, FUSE_READ, TAKES_LONG, &large, sizeof(large));
	cr_assert_eq(ask(&kernel, FUSE_GETATTR, &getattr, sizeof(getattr)), -ENOSYS);
	for (int i = 0; i < 6; i++)
		sem_post(&enough);
	for (int i = 0; i < 6; i++) {
		cr_assert_eq(take_answer(&kernel, &node), -ENOSYS);
		cr_assert_eq(node, TAKES_LONG);
	}
	kernel_end(&kernel);
}

/* Several would be woken in turn, each on a processor that sleeps. */
Test(transport, one_thread_serves_a_client_that_waits_for_each_answer)
{
	struct fuse_getattr_in getattr = { 0 };
	struct kernel kernel;

	kernel_begin(&kernel);
	for (int i = 0; i < N_REQUESTS; i++)
		cr_assert_eq(ask(&kernel, FUSE_GETATTR, &getattr, sizeof(getattr)),
			     -ENOSYS);
	cr_assert_leq(n_seen, 2, "%u threads, and only one was ever needed", n_seen);
	kernel_end(&kernel);
}

Test(transport, a_handler_that_takes_long_holds_up_no_other_request)
{
	struct fuse_getattr_in getattr = { 0 };
	struct kernel kernel;
	uint64_t node;

	sem_init(&enough, 0, 0);
	kernel_begin(&kernel);
	for (int i = 0; i < 3; i++)
		send_request(&kernel, FUSE_GETATTR, TAKES_LONG, &getattr,
			     sizeof(getattr));
	for (int i = 0; i < N_REQUESTS; i++) {
		send_request(&kernel, FUSE_GETATTR, FUSE_ROOT_ID, &getattr,
			     sizeof(getattr));
		cr_assert_eq(take_answer(&kernel, &node), -ENOSYS);
		cr_assert_eq(node, FUSE_ROOT_ID);
	}
	for (int i = 0; i < 3; i++)
		sem_post(&enough);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(take_answer(&kernel, &node), -ENOSYS);
		cr_assert_eq(node, TAKES_LONG);
	}
	kernel_end(&kernel);
}

/* Sends requests that take a moment, all at once, and takes the answers. */
static void crowd_asks(struct kernel *kernel)
{
	const struct fuse_getattr_in getattr = { 0 };
	uint64_t node;

	for (int i = 0; i < N_REQUESTS; i++)
		send_request(kernel, FUSE_GETATTR, TAKES_A_MOMENT, &getattr,
			     sizeof(getattr));
	for (int i = 0; i < N_REQUESTS; i++)
		cr_assert_eq(take_answer(kernel, &node), -ENOSYS);
}

/* To pass the turn at each request would wake a thread at each. */
Test(transport, many_requests_at_once_are_read_and_handled_by_several_threads)
{
	struct kernel kernel;

	kernel_begin(&kernel);
	for (int round = 0;
	     round < N_MEETINGS && (threads_seen() < 3 || !count(&meeting.several, 0));
	     round++)
		crowd_asks(&kernel);
	cr_expect_geq(threads_seen(), 3, "%u threads", threads_seen());
	cr_expect_geq(count(&meeting.several, 0), 1, "one at a time read");
	kernel_end(&kernel);
}

/* A request costs the two system calls that it has to. On a busy machine the threads take
 * longer to come together: one round without looks is enough. */
Test(transport, while_all_threads_read_nobody_looks_for_requests)
{
	struct kernel kernel;
	unsigned int fewest = N_REQUESTS;

	kernel_begin(&kernel);
	for (int round = 0; round < N_MEETINGS && fewest > N_REQUESTS / 2; round++) {
		const unsigned int before = __atomic_load_n(&n_polls, __ATOMIC_RELAXED);

		crowd_asks(&kernel);
		fewest =
			MIN(fewest, __atomic_load_n(&n_polls, __ATOMIC_RELAXED) - before);
	}
	cr_expect_leq(fewest, N_REQUESTS / 2, "%u looks at %d requests", fewest,
		      N_REQUESTS);
	kernel_end(&kernel);
}

/* While a write of 1 MiB is handled, which takes as long as its copying, another thread
 * reads: no time limit has to pass first. */
Test(transport, another_thread_reads_while_a_large_request_is_handled)
{
	static struct {
		struct fuse_write_in write;
		uint8_t bytes[100000];
	} large = { .write = { .size = sizeof(large.bytes) } };
	struct kernel kernel;

	kernel_begin(&kernel);
	for (int i = 0; i < N_REQUESTS; i++)
		cr_assert_eq(ask(&kernel, FUSE_WRITE, &large, sizeof(large)), -ENOMEM);
	cr_assert_geq(n_seen, 2, "%u threads", n_seen);
	kernel_end(&kernel);
}

/* The kernel copies the bytes of a write within the read. */
Test(transport, large_requests_of_several_programs_are_read_by_several_threads)
{
	static struct {
		struct fuse_write_in write;
		uint8_t bytes[80000];
	} large = { .write = { .size = sizeof(large.bytes) } };
	struct fuse_getattr_in getattr = { 0 };
	struct kernel kernel;
	uint64_t node;

	sem_init(&meeting.second_sent, 0, 0);
	kernel_begin(&kernel);
	count(&meeting.on, 1);
	for (int i = 0; i < N_MEETINGS && !count(&meeting.n_met, 0); i++) {
		send_request(&kernel, FUSE_WRITE, 2, &large, sizeof(large));
		send_request(&kernel, FUSE_WRITE, 3, &large, sizeof(large));
		sem_post(&meeting.second_sent);
		for (int j = 0; j < 2; j++)
			cr_assert_eq(take_answer(&kernel, &node), -ENOMEM);
	}
	cr_expect_geq(count(&meeting.n_met, 0), 1);
	/* And they can be told to park, wherever they read. */
	transport_pause(kernel.transport);
	transport_go_on(kernel.transport);
	cr_assert_eq(ask(&kernel, FUSE_GETATTR, &getattr, sizeof(getattr)), -ENOSYS);
	kernel_end(&kernel);
}

/* Sends a request. Returns: how often the threads looked whether there is another. */
static unsigned int polls_of_a_request(struct kernel *kernel)
{
	const struct fuse_getattr_in getattr = { 0 };
	const unsigned int before = __atomic_load_n(&n_polls, __ATOMIC_RELAXED);

	cr_assert_eq(ask(kernel, FUSE_GETATTR, &getattr, sizeof(getattr)), -ENOSYS);
	usleep(1000);
	return __atomic_load_n(&n_polls, __ATOMIC_RELAXED) - before;
}

/* A thread looks once at each request, whether another one is behind it. */
Test(transport, on_one_processor_nobody_looks_for_the_next_request)
{
	struct kernel kernel;

	n_cpus = 1;
	kernel_begin(&kernel);
	for (int i = 0; i < N_REQUESTS; i++)
		cr_expect_leq(polls_of_a_request(&kernel), 1);
	kernel_end(&kernel);
}

Test(transport, after_looks_in_vain_nobody_looks_for_a_while)
{
	struct kernel kernel;
	unsigned int n_looks = 0, most;
	int64_t begin = clock_ms();

	n_cpus = 2;
	kernel_begin(&kernel);
	for (int i = 0; i < N_REQUESTS; i++)
		n_looks += polls_of_a_request(&kernel) > 1;
	most = LOOK_VAIN + 1 +
	       (unsigned int)((clock_ms() - begin) * 1000000 / LOOK_PAUSE_NS);
	cr_expect_geq(n_looks, LOOK_VAIN - 1, "the first looks: %u", n_looks);
	cr_expect_leq(n_looks, most, "%u looks, and %u may be", n_looks, most);
	kernel_end(&kernel);
}

/* SPDX-License-Identifier: MIT */
/*
 * The threads do all with their descriptors by syscall(). The thread sanitizer knows one
 * table for the whole process: it would take descriptor 12 of a thread for the broker's,
 * and its close for a race.
 */
#include "base/spawner.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/def.h"

/*
 * The table of a thread. The numbers that a program may be given are taken, so the
 * descriptors of an order lie above them, and no dup2(2) in the child overwrites a
 * descriptor that a later one needs. A child closes copies of the socket at no cost:
 * users can't put locks on the socket.
 */
#define NULL_FD	  0			   /* inherited as stdin */
#define SOCKET_FD 3			   /* and all other numbers below SPAWN_FD_END */
#define FDS_MOST  (SPAWN_FDS + 2)	   /* stdout and stderr too */
#define FDS_SPACE (FDS_MOST * sizeof(int)) /* bytes in a message */

/* A program to start: the message is the address, with the descriptors. */
struct order {
	const struct spawn *spawn;
	int fds[FDS_MOST]; /* the sender's */
	int numbers[FDS_MOST];
	unsigned int n_fds;
	int sent; /* atomic */

	pthread_cond_t answered;
	bool is_answered; /* spawner->lock, as those below */
	int result;
	pid_t pid;
};

struct taken {
	int fds[FDS_MOST]; /* in the table of the thread */
	unsigned int n_fds;
};

static bool order_has(const struct order *order, int number)
{
	for (unsigned int i = 0; i < order->n_fds; i++) {
		if (order->numbers[i] == number)
			return true;
	}
	return false;
}

/* ---- the threads ---- */

static void table_close(int from, unsigned int to)
{
	(void)syscall(SYS_close_range, from, to, 0);
}

static int table_open_null(void)
{
	const long null = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || syscall(SYS_dup3, null, NULL_FD, 0) < 0)
		return -errno;
	return 0;
}

/*
 * Leaves the table of the process, with the socket in the new one. The new table has no
 * descriptor above the socket: Linux copies and closes those below 64 at most.
 *
 * Returns: 0; -errno.
 */
static int table_make(int socket)
{
	long raised;
	int r;

	if (syscall(SYS_close_range, socket + 1, ~0U, CLOSE_RANGE_UNSHARE) < 0)
		return -errno;
	raised = syscall(SYS_fcntl, socket, F_DUPFD_CLOEXEC, SPAWN_FD_END);
	if (raised < 0)
		return -errno;
	for (int fd = 0; fd < SPAWN_FD_END; fd++) {
		if (syscall(SYS_dup3, raised, fd, O_CLOEXEC) < 0)
			return -errno;
	}
	r = table_open_null();
	table_close(SPAWN_FD_END, ~0U);
	return r;
}

/* Returns: false when there will be none any more. */
static bool order_take(struct order **ret_order, struct taken *ret_taken)
{
	char space[CMSG_SPACE(FDS_SPACE)] __attribute__((aligned(8)));
	struct iovec bytes = { ret_order, sizeof(*ret_order) };
	struct msghdr message = {
		.msg_iov = &bytes,
		.msg_iovlen = 1,
		.msg_control = space,
		.msg_controllen = sizeof(space),
	};
	const struct cmsghdr *header;
	long length;

	do {
		length = syscall(SYS_recvmsg, SOCKET_FD, &message, MSG_CMSG_CLOEXEC);
	} while (length < 0 && errno == EINTR);
	if (length != sizeof(*ret_order))
		return false;
	*ret_taken = (struct taken){ 0 };
	header = CMSG_FIRSTHDR(&message);
	if (header) {
		length = (long)(header->cmsg_len - CMSG_LEN(0));
		memcpy(ret_taken->fds, CMSG_DATA(header), (size_t)length);
		ret_taken->n_fds = (unsigned int)((size_t)length / sizeof(int));
	}
	return true;
}

/*
 * Lists the dup2(2) calls of the child before exec. All else in its table is
 * close-on-exec. A number gets /dev/null only if no descriptor of the order has it: a
 * second dup2(2) to a number is a close(2).
 */
static int actions_fill(posix_spawn_file_actions_t *actions, const struct order *order,
			const struct taken *taken)
{
	int r = 0;

	for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO && r == 0; fd++) {
		if (!order_has(order, fd))
			r = posix_spawn_file_actions_adddup2(actions, NULL_FD, fd);
	}
	for (unsigned int i = 0; i < taken->n_fds && r == 0; i++)
		r = posix_spawn_file_actions_adddup2(actions, taken->fds[i],
						     order->numbers[i]);
	return -r;
}

static int attributes_fill(posix_spawnattr_t *attributes)
{
	sigset_t none, all;
	int r;

	sigemptyset(&none);
	sigfillset(&all);
	r = posix_spawnattr_setsigmask(attributes, &none);
	if (r == 0)
		r = posix_spawnattr_setsigdefault(attributes, &all);
	if (r == 0)
		r = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK |
								 POSIX_SPAWN_SETSIGDEF |
								 POSIX_SPAWN_SETSID);
	return -r;
}

/*
 * posix_spawn shares the memory of the process with the child until exec, so the size of
 * the process costs nothing and no lock is copied in a wrong state.
 */
static int start_prepared(const struct order *order, const struct taken *taken,
			  posix_spawn_file_actions_t *actions,
			  posix_spawnattr_t *attributes, pid_t *ret_pid)
{
	const struct spawn *spawn = order->spawn;
	int r = actions_fill(actions, order, taken);

	if (r == 0)
		r = attributes_fill(attributes);
	if (r < 0)
		return r;
	return -posix_spawn(ret_pid, spawn->program, actions, attributes,
			    (char **)spawn->arguments, (char **)spawn->environment);
}

static int start(const struct order *order, const struct taken *taken, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int r;

	/* Linux leaves out those that the table has no room for. */
	if (taken->n_fds != order->n_fds)
		return -EMFILE;
	r = -posix_spawn_file_actions_init(&actions);
	if (r < 0)
		return r;
	r = -posix_spawnattr_init(&attributes);
	if (r == 0) {
		r = start_prepared(order, taken, &actions, &attributes, ret_pid);
		posix_spawnattr_destroy(&attributes);
	}
	posix_spawn_file_actions_destroy(&actions);
	return r;
}

/* The order is its sender's again afterwards. */
static void order_answer(struct spawner *spawner, struct order *order, int result,
			 pid_t pid)
{
	pthread_mutex_lock(&spawner->lock);
	order->result = result;
	order->pid = pid;
	order->is_answered = true;
	pthread_cond_signal(&order->answered);
	pthread_mutex_unlock(&spawner->lock);
}

/* Waits for an order and carries it out. Returns: false at the end. */
static bool order_serve(struct spawner *spawner)
{
	struct order *order;
	struct taken taken;
	pid_t pid = 0;
	int r;

	if (!order_take(&order, &taken))
		return false;
	/* For the thread sanitizer, which does not see the message. */
	(void)__atomic_load_n(&order->sent, __ATOMIC_ACQUIRE);
	r = start(order, &taken, &pid);
	table_close(SPAWN_FD_END, ~0U);
	order_answer(spawner, order, r, pid);
	return true;
}

static void *spawner_run(void *userdata)
{
	struct spawner *spawner = userdata;
	int r = table_make(spawner->orders);

	pthread_mutex_lock(&spawner->lock);
	spawner->n_ready++;
	spawner->error = spawner->error ?: r;
	pthread_cond_signal(&spawner->ready);
	pthread_mutex_unlock(&spawner->lock);

	while (r == 0 && order_serve(spawner))
		;
	return NULL;
}

/* ---- start and end ---- */

/* Waits until all have left the table of the process. Returns: 0; -errno. */
static int threads_wait(struct spawner *spawner)
{
	int r;

	pthread_mutex_lock(&spawner->lock);
	while (spawner->n_ready < spawner->n_threads)
		pthread_cond_wait(&spawner->ready, &spawner->lock);
	r = spawner->error;
	pthread_mutex_unlock(&spawner->lock);
	return r;
}

static int threads_start(struct spawner *spawner)
{
	sigset_t all, before;
	int error = 0, r;

	/* Signals are for the program's own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (spawner->n_threads < SPAWNER_THREADS && !error) {
		error = pthread_create(&spawner->threads[spawner->n_threads], NULL,
				       spawner_run, spawner);
		spawner->n_threads += !error;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	r = threads_wait(spawner);
	return error ? -error : r;
}

int spawner_init(struct spawner *spawner)
{
	int sockets[2], r;

	*spawner = (struct spawner){ .socket = -1 };
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return -errno;
	spawner->socket = sockets[0];
	spawner->orders = sockets[1];
	pthread_mutex_init(&spawner->lock, NULL);
	pthread_cond_init(&spawner->ready, NULL);
	r = threads_start(spawner);
	closep(&spawner->orders);
	if (r < 0)
		spawner_deinit(spawner);
	return r;
}

void spawner_deinit(struct spawner *spawner)
{
	if (spawner->socket < 0)
		return;
	shutdown(spawner->socket, SHUT_RDWR);
	while (spawner->n_threads > 0)
		pthread_join(spawner->threads[--spawner->n_threads], NULL);
	closep(&spawner->socket);
	pthread_cond_destroy(&spawner->ready);
	pthread_mutex_destroy(&spawner->lock);
}

/* ---- those who want a program started ---- */

static void order_add(struct order *order, int fd, int number)
{
	assert(number < SPAWN_FD_END && order->n_fds < FDS_MOST);
	order->fds[order->n_fds] = fd;
	order->numbers[order->n_fds++] = number;
}

/* The threads have a /dev/null of their own: users may put locks on that file, too. */
static bool is_null(int fd)
{
	struct stat status;

	return fstat(fd, &status) < 0 ||
	       (S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3));
}

static void order_fill(struct order *order, const struct spawn *spawn)
{
	assert(spawn->n_fds <= SPAWN_FDS);
	order->spawn = spawn;
	for (unsigned int i = 0; i < spawn->n_fds; i++) {
		if (spawn->fds[i].fd >= 0)
			order_add(order, spawn->fds[i].fd, spawn->fds[i].number);
	}
	for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
		if (!order_has(order, fd) && !is_null(fd))
			order_add(order, fd, fd);
	}
}

/* Returns: 0; -errno. */
static int order_send(const struct spawner *spawner, struct order *order)
{
	char space[CMSG_SPACE(FDS_SPACE)] __attribute__((aligned(8))) = { 0 };
	const size_t length = order->n_fds * sizeof(int);
	struct iovec bytes = { &order, sizeof(order) };
	struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1 };
	struct cmsghdr *header;
	ssize_t sent;

	if (length) {
		message.msg_control = space;
		message.msg_controllen = CMSG_SPACE(length);
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(length);
		memcpy(CMSG_DATA(header), order->fds, length);
	}
	__atomic_store_n(&order->sent, 1, __ATOMIC_RELEASE);
	do {
		sent = sendmsg(spawner->socket, &message, MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	if (sent >= 0)
		return 0;
	/* A user has too many descriptors in messages: a shortage like others. */
	return errno == ETOOMANYREFS ? -EMFILE : -errno;
}

int spawner_start(struct spawner *spawner, const struct spawn *spawn, pid_t *ret_pid)
{
	struct order order = { .answered = PTHREAD_COND_INITIALIZER };
	int r;

	order_fill(&order, spawn);
	r = order_send(spawner, &order);
	if (r < 0)
		return r;
	pthread_mutex_lock(&spawner->lock);
	while (!order.is_answered)
		pthread_cond_wait(&order.answered, &spawner->lock);
	pthread_mutex_unlock(&spawner->lock);
	pthread_cond_destroy(&order.answered);
	if (order.result == 0)
		*ret_pid = order.pid;
	return order.result;
}

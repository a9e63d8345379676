/* SPDX-License-Identifier: MIT */
/*
 * One worker, seen from the broker.
 *
 * Two kinds of threads: the keeper, which starts the worker, empties the queue of what
 * the socket did not take, keeps the deadlines and buries the worker; and receivers,
 * which sleep in recvmsg on the same socket, one record each, and call back.
 *
 *     STARTING --HELLO answered--> READY --worker gone--> ENDED
 *         `------------------worker gone-------------------^
 *
 * What leads to the end, from whichever thread sees it first: the socket's end, a record
 * that breaks a rule, link_kill(), link_stop(). From then on `ending` is set: nothing is
 * sent or believed any more. But open questions are answered only when the process is
 * gone and waited for, so that "lost" also means that nothing moves in the staging area
 * on their behalf any more (of what the process itself was: a child that an owner's
 * worker left behind can write to that owner's area as before).
 *
 * One lock, a leaf, guards all that changes. Under it there are only sends that don't
 * block and signals. A stopped worker stops reading: its socket fills, the queue grows,
 * nobody waits.
 *
 * No descriptor that a worker sends ever enters the broker: without a control buffer
 * the kernel drops it and says so (MSG_CTRUNC).
 */
#include "link/link.h"

#include "base/clock.h"
#include "cuda/driver.h"
#include "link/start.h"
#include "link/table.h"
#include "link/wire.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* From the socket's end to the process's, before it is killed. Giving contexts back can
 * take the driver seconds where many do. */
#define GRACE_MS 5000
#define RETRY_MS 5 /* after a send that the kernel had no memory for */
#define NEVER	 INT64_MAX

struct ask_queue {
	struct ask *first;
	struct ask **end;
};

struct link {
	/* set by link_new() */
	struct link_config config;
	char *program, *driver, *name; /* what config points to */
	int socket;
	int urgent;	   /* for what nothing must hold up */
	int worker_socket; /* the keeper's, -1 once the worker has them */
	int worker_urgent;
	int wake; /* eventfd that wakes the keeper */
	pthread_t keeper;
	pthread_t *receivers;
	unsigned int n_receivers;
	unsigned int n_receivers_done; /* that have seen the end */

	pthread_mutex_t lock; /* guards everything below */
	enum link_state state;
	struct ask_table asks;	  /* open questions, whether sent or in the queue */
	struct ask_queue queue;	  /* not sent yet */
	struct ask_queue refused; /* never sent: the keeper answers them */
	struct ask hello;
	pid_t pid;
	int pidfd;
	int64_t deadline; /* CLOCK_MONOTONIC in ms, when the worker is killed */
	int64_t retry;	  /* when to send again */
	bool ending;	  /* its answers count no more */
	bool stopping;	  /* the queue is sent, and then the sending side is closed */
	bool shut;	  /* it is closed */
	bool kill; /* the worker is to be killed, also when it is not started yet */
	bool freed;
	char reason[256]; /* "" until there is one */
};

static void queue_init(struct ask_queue *queue)
{
	queue->first = NULL;
	queue->end = &queue->first;
}

static void queue_push(struct ask_queue *queue, struct ask *ask)
{
	ask->next = NULL;
	*queue->end = ask;
	queue->end = &ask->next;
}

static struct ask *queue_pop(struct ask_queue *queue)
{
	struct ask *ask = queue->first;

	if (!ask)
		return NULL;
	queue->first = ask->next;
	if (!queue->first)
		queue->end = &queue->first;
	return ask;
}

static void link_wake(struct link *link)
{
	eventfd_write(link->wake, 1);
}

static void link_signal_locked(struct link *link)
{
	link->kill = true;
	if (link->pidfd >= 0)
		pidfd_send_signal(link->pidfd, SIGKILL, NULL, 0);
}

static void link_set_reason_locked(struct link *link, const char *reason)
{
	if (!link->reason[0])
		snprintf(link->reason, sizeof(link->reason), "%s", reason);
}

/* A rule was broken: what comes from this worker now is not looked at. */
static void link_break_locked(struct link *link, const char *record, const char *wrong)
{
	char reason[sizeof(link->reason)];

	if (link->ending)
		return;
	snprintf(reason, sizeof(reason), "broke the rules of the wire: %s with %s",
		 record, wrong);
	link_set_reason_locked(link, reason);
	link->ending = true;
	link_signal_locked(link);
	link_wake(link);
}

/*
 * The worker will send no more: it has a moment to exit with a status that tells why. As
 * long as one receiver has not seen the end it may have an answer in its hands.
 */
static void link_end_of_stream(struct link *link)
{
	pthread_mutex_lock(&link->lock);
	if (++link->n_receivers_done == link->config.n_threads && !link->ending) {
		link->ending = true;
		link->deadline = MIN(link->deadline, clock_ms() + GRACE_MS);
		link_wake(link);
	}
	pthread_mutex_unlock(&link->lock);
}

/* Calls back, without the lock; the ask is the asker's again. */
static void ask_answer(struct ask *ask, const struct wire_reply *reply, bool lost)
{
	closep(&ask->fd);
	ask->done(ask, reply, lost);
}

static void ask_answer_refused(struct ask *ask)
{
	const struct wire_reply reply = {
		.id = ask->request.id,
		.error = ask->refused,
		.call = -1,
	};

	ask_answer(ask, &reply, ask->refused == EIO);
}

static void link_refuse_locked(struct link *link, struct ask *ask, int error)
{
	ask->refused = error;
	queue_push(&link->refused, ask);
	link_wake(link);
}

/* Sends one question. Returns: 0; -EAGAIN, -ENOBUFS where it has to wait. */
static int link_send_locked(struct link *link, struct ask *ask)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {
		.header = {
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
			.cmsg_len = CMSG_LEN(sizeof(int)),
		},
	};
	struct iovec parts[] = {
		{ &ask->request, sizeof(ask->request) },
		{ (void *)ask->payload, ask->payload ? ask->request.length : 0 },
	};
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = ARRAY_SIZE(parts) };
	int socket;

	if (ask->fd >= 0) {
		memcpy(CMSG_DATA(&control.header), &ask->fd, sizeof(int));
		message.msg_control = &control;
		message.msg_controllen = sizeof(control.space);
	}
	socket = wire_op_is_urgent(ask->request.op) ? link->urgent : link->socket;
	if (sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		switch (errno) {
		case EAGAIN:
			return -EAGAIN;
		case ENOMEM:
		case ENOBUFS:
		case ETOOMANYREFS:
			return -ENOBUFS;
		case EBADF: /* the asker's own descriptor */
			ask_table_remove(&link->asks, ask->request.id);
			ask->fd = -1;
			link_refuse_locked(link, ask, EBADF);
			return 0;
		default: /* the worker is gone: lost, like all that is open */
			break;
		}
	}
	closep(&ask->fd);
	ask_table_set_sent(&link->asks, ask->request.id);
	return 0;
}

static bool link_can_send_locked(struct link *link)
{
	return link->state == LINK_READY && !link->ending;
}

/* Sends what waits, as far as the socket takes it. */
static void link_flush_locked(struct link *link)
{
	int r = 0;

	link->retry = NEVER;
	if (!link_can_send_locked(link))
		return;
	while (link->queue.first) {
		/* Off the queue first: once sent, it is the asker's as soon as it is
		 * answered. */
		struct ask *ask = queue_pop(&link->queue);

		r = link_send_locked(link, ask);
		if (r == 0)
			continue;
		ask->next = link->queue.first;
		if (!link->queue.first)
			link->queue.end = &ask->next;
		link->queue.first = ask;
		if (r == -ENOBUFS)
			link->retry = clock_ms() + RETRY_MS;
		return;
	}
	if (link->stopping && !link->shut) {
		link->shut = true;
		shutdown(link->urgent, SHUT_WR);
		shutdown(link->socket, SHUT_WR);
	}
}

static void link_hello_failed_locked(struct link *link, const struct wire_reply *reply)
{
	char reason[sizeof(link->reason)];

	if (reply->call >= 0)
		snprintf(reason, sizeof(reason), "can't work: %s failed: %s",
			 cuda_call_name(reply->call), cuda_result_name(reply->result));
	else
		snprintf(reason, sizeof(reason), "can't work: %s",
			 strerrordesc_np(reply->error) ?: "unknown error");
	link_set_reason_locked(link, reason);
	link->ending = true;
	link->deadline = MIN(link->deadline, clock_ms() + GRACE_MS);
	link_wake(link);
}

static void link_hello_done(struct ask *ask, const struct wire_reply *reply, bool lost)
{
	struct link *link = container_of(ask, struct link, hello);

	if (lost)
		return;
	pthread_mutex_lock(&link->lock);
	if (reply->error) {
		link_hello_failed_locked(link, reply);
	} else {
		link->state = LINK_READY;
		link_flush_locked(link);
		link_wake(link);
	}
	pthread_mutex_unlock(&link->lock);
}

/* The question that a reply answers, taken out of the table; NULL where the rules don't
 * allow it. */
static struct ask *link_match_locked(struct link *link, const struct wire_reply *reply)
{
	const char *wrong;
	struct ask *ask;

	if (link->ending)
		return NULL;
	ask = ask_table_find(&link->asks, reply->id);
	if (!ask) {
		link_break_locked(link, "a reply", "no question to it");
		return NULL;
	}
	wrong = wire_check_reply(&ask->request, reply);
	if (wrong) {
		link_break_locked(link, "a reply", wrong);
		return NULL;
	}
	ask_table_remove(&link->asks, reply->id);
	return ask;
}

static const char *record_check(ssize_t length, int flags)
{
	if (flags & MSG_CTRUNC)
		return "a descriptor";
	if ((flags & MSG_TRUNC) || length != sizeof(struct wire_reply))
		return "a wrong size";
	return NULL;
}

/* An empty record looks like the end of the stream. */
static bool link_has_hung_up(const struct link *link)
{
	struct pollfd fd = { .fd = link->socket, .events = POLLRDHUP };

	return poll(&fd, 1, 0) != 0;
}

/* Takes one record. Returns: false at the end of the stream. */
static bool link_receive(struct link *link)
{
	struct wire_reply reply;
	struct iovec record = { &reply, sizeof(reply) };
	struct msghdr message = { .msg_iov = &record, .msg_iovlen = 1 };
	struct ask *ask = NULL;
	const char *wrong;
	ssize_t n;

	n = recvmsg(link->socket, &message, MSG_CMSG_CLOEXEC);
	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0 || (n == 0 && link_has_hung_up(link)))
		return false;

	wrong = record_check(n, message.msg_flags);
	pthread_mutex_lock(&link->lock);
	if (wrong)
		link_break_locked(link, "a record", wrong);
	else
		ask = link_match_locked(link, &reply);
	pthread_mutex_unlock(&link->lock);
	if (ask)
		ask_answer(ask, &reply, false);
	return true;
}

static void *receiver_run(void *userdata)
{
	struct link *link = userdata;

	while (link_receive(link))
		;
	link_end_of_stream(link);
	return NULL;
}

static void link_set_reason_from(struct link *link, int error)
{
	char reason[sizeof(link->reason)];

	snprintf(reason, sizeof(reason), "could not be started: %s",
		 strerrordesc_np(error) ?: "unknown error");
	pthread_mutex_lock(&link->lock);
	link_set_reason_locked(link, reason);
	pthread_mutex_unlock(&link->lock);
}

/* Starts the worker and watches the process. Returns: 0, or why it could not be. */
static int link_start_process(struct link *link)
{
	pid_t pid;
	int pidfd, r;

	r = start_worker(&link->config, link->worker_socket, link->worker_urgent, &pid);
	closep(&link->worker_socket);
	closep(&link->worker_urgent);
	closep(&link->config.output_fd);
	if (r < 0)
		return r;
	pidfd = pidfd_open(pid, 0);
	if (pidfd < 0) {
		r = -errno;
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return r;
	}
	pthread_mutex_lock(&link->lock);
	link->pid = pid;
	link->pidfd = pidfd;
	if (link->kill)
		link_signal_locked(link);
	pthread_mutex_unlock(&link->lock);
	return 0;
}

static void link_say_hello(struct link *link)
{
	pthread_mutex_lock(&link->lock);
	link->hello = (struct ask){
		.request = { .op = WIRE_HELLO },
		.fd = -1,
		.done = link_hello_done,
	};
	if (ask_table_add(&link->asks, &link->hello) < 0 ||
	    link_send_locked(link, &link->hello) < 0) {
		link_set_reason_locked(link, "could not be greeted: no memory");
		link_signal_locked(link);
	}
	pthread_mutex_unlock(&link->lock);
}

/* Answers what was refused. Entered and left with the lock, given up in between. */
static void link_answer_refused_locked(struct link *link)
{
	struct ask *ask;

	while ((ask = queue_pop(&link->refused))) {
		pthread_mutex_unlock(&link->lock);
		ask_answer_refused(ask);
		pthread_mutex_lock(&link->lock);
	}
}

static int link_timeout_locked(struct link *link)
{
	int64_t until = MIN(link->deadline, link->retry);

	if (until == NEVER)
		return -1;
	return (int)MIN(MAX(until - clock_ms(), (int64_t)0), (int64_t)INT32_MAX);
}

static void link_check_deadline_locked(struct link *link)
{
	if (clock_ms() < link->deadline)
		return;
	link->deadline = NEVER;
	link_set_reason_locked(link, link->stopping ? "did not stop in time"
						    : "closed its socket and lived on");
	link_signal_locked(link);
}

/* Waits for something to do. Returns: false when the process has ended. */
static bool link_wait(struct link *link)
{
	struct pollfd fds[] = {
		{ .fd = link->wake, .events = POLLIN },
		{ .fd = link->pidfd, .events = POLLIN },
		{ .fd = -1, .events = POLLOUT },
	};
	eventfd_t value;
	int timeout;

	pthread_mutex_lock(&link->lock);
	if (link_can_send_locked(link) && link->queue.first && link->retry == NEVER)
		fds[2].fd = link->socket;
	timeout = link_timeout_locked(link);
	pthread_mutex_unlock(&link->lock);

	poll(fds, ARRAY_SIZE(fds), timeout);
	if (fds[0].revents)
		eventfd_read(link->wake, &value);
	return !fds[1].revents;
}

static void link_watch(struct link *link)
{
	while (link_wait(link)) {
		pthread_mutex_lock(&link->lock);
		link_flush_locked(link);
		link_check_deadline_locked(link);
		link_answer_refused_locked(link);
		pthread_mutex_unlock(&link->lock);
	}
}

/* Lets the receivers take what the worker still said: it may be why it ended. */
static void link_drain(struct link *link)
{
	shutdown(link->socket, SHUT_RDWR);
	for (unsigned int i = 0; i < link->n_receivers; i++)
		pthread_join(link->receivers[i], NULL);
}

/* Waits for a process that has ended and says how it did. */
static void link_bury(struct link *link)
{
	char reason[sizeof(link->reason)];
	siginfo_t info = { 0 };

	if (waitid(P_PIDFD, (id_t)link->pidfd, &info, WEXITED) < 0)
		snprintf(reason, sizeof(reason), "is gone");
	else if (info.si_code != CLD_EXITED)
		snprintf(reason, sizeof(reason), "was killed by signal %d",
			 info.si_status);
	else if (info.si_status || !link->stopping)
		snprintf(reason, sizeof(reason), "exited with status %d", info.si_status);
	else
		snprintf(reason, sizeof(reason), "was stopped");

	pthread_mutex_lock(&link->lock);
	link_set_reason_locked(link, reason);
	closep(&link->pidfd);
	link->pid = 0;
	pthread_mutex_unlock(&link->lock);
}

/* No worker any more: lets the receivers take what it still said, then answers the rest.
 */
static void link_finish(struct link *link)
{
	const struct wire_reply nothing = { .error = EIO, .call = -1 };
	struct ask *ask;

	pthread_mutex_lock(&link->lock);
	link->ending = true;
	link->state = LINK_ENDED;
	queue_init(&link->queue);
	while ((ask = ask_table_pop(&link->asks))) {
		pthread_mutex_unlock(&link->lock);
		ask_answer(ask, &nothing, true);
		pthread_mutex_lock(&link->lock);
	}
	link_answer_refused_locked(link);
	pthread_mutex_unlock(&link->lock);
	link->config.ended(link->config.userdata, link, link->reason);
}

/* Answers whoever asks a worker that is no more, until the link is freed. */
static void link_linger(struct link *link)
{
	eventfd_t value;
	bool freed;

	do {
		pthread_mutex_lock(&link->lock);
		link_answer_refused_locked(link);
		freed = link->freed;
		pthread_mutex_unlock(&link->lock);
	} while (!freed && eventfd_read(link->wake, &value) == 0);
}

static void *keeper_run(void *userdata)
{
	struct link *link = userdata;
	int r;

	r = link_start_process(link);
	if (r < 0) {
		link_set_reason_from(link, -r);
		link_drain(link);
	} else {
		link_say_hello(link);
		link_watch(link);
		link_drain(link);
		link_bury(link);
	}
	link_finish(link);
	link_linger(link);
	return NULL;
}

static struct link *link_release(struct link *link)
{
	ask_table_deinit(&link->asks);
	pthread_mutex_destroy(&link->lock);
	closep(&link->socket);
	closep(&link->urgent);
	closep(&link->worker_socket);
	closep(&link->worker_urgent);
	closep(&link->wake);
	closep(&link->pidfd);
	free(link->receivers);
	free(link->program);
	free(link->driver);
	free(link->name);
	free(link);
	return NULL;
}

static void link_releasep(struct link **link)
{
	if (*link)
		link_release(*link);
}

static int link_alloc(struct link **ret_link, const struct link_config *config)
{
	_cleanup_(link_releasep) struct link *link = NULL;

	link = calloc(1, sizeof(*link));
	if (!link)
		return -ENOMEM;
	link->socket = link->worker_socket = link->wake = link->pidfd = -1;
	link->urgent = link->worker_urgent = -1;
	link->deadline = link->retry = NEVER;
	link->config = *config;
	pthread_mutex_init(&link->lock, NULL);
	queue_init(&link->queue);
	queue_init(&link->refused);
	link->config.program = link->program = strdup(config->program);
	link->config.driver = link->driver = strdup(config->driver);
	link->config.name = link->name = strdup(config->name);
	link->receivers = calloc(config->n_threads, sizeof(*link->receivers));
	if (!link->program || !link->driver || !link->name || !link->receivers)
		return -ENOMEM;
	*ret_link = take_ptr(link);
	return 0;
}

static int link_open(struct link *link)
{
	int sockets[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return -errno;
	link->socket = sockets[0];
	link->worker_socket = sockets[1];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return -errno;
	link->urgent = sockets[0];
	link->worker_urgent = sockets[1];
	link->wake = eventfd(0, EFD_CLOEXEC);
	return link->wake < 0 ? -errno : 0;
}

/* The keeper comes last: without it nothing has begun, and the receivers are sent home.
 */
static int link_start_threads(struct link *link)
{
	int r = 0;

	while (r == 0 && link->n_receivers < link->config.n_threads) {
		r = pthread_create(&link->receivers[link->n_receivers], NULL,
				   receiver_run, link);
		if (r == 0)
			link->n_receivers++;
	}
	if (r == 0)
		r = pthread_create(&link->keeper, NULL, keeper_run, link);
	if (r == 0)
		return 0;

	shutdown(link->socket, SHUT_RDWR);
	for (unsigned int i = 0; i < link->n_receivers; i++)
		pthread_join(link->receivers[i], NULL);
	return -r;
}

int link_new(struct link **ret_link, const struct link_config *config)
{
	_cleanup_(link_releasep) struct link *link = NULL;
	sigset_t all, before;
	int r;

	assert(config->n_threads >= 1);
	r = link_alloc(&link, config);
	if (r < 0)
		return r;
	r = link_open(link);
	if (r < 0)
		return r;

	/* Signals are for the program's own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = link_start_threads(link);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r < 0)
		return r;
	*ret_link = take_ptr(link);
	return 0;
}

struct link *link_free(struct link *link)
{
	if (!link)
		return NULL;
	pthread_mutex_lock(&link->lock);
	link->freed = true;
	link_signal_locked(link);
	link_wake(link);
	pthread_mutex_unlock(&link->lock);
	pthread_join(link->keeper, NULL);
	return link_release(link);
}

static void link_enqueue_locked(struct link *link, struct ask *ask)
{
	bool urgent = wire_op_is_urgent(ask->request.op);

	if (link_can_send_locked(link) && (urgent || !link->queue.first)) {
		int r = link_send_locked(link, ask);

		if (r == 0)
			return;
		if (r == -ENOBUFS)
			link->retry = clock_ms() + RETRY_MS;
		link_wake(link);
	}
	queue_push(&link->queue, ask);
}

static int link_accept_locked(struct link *link, struct ask *ask)
{
	if (link->state == LINK_ENDED)
		return EIO;
	if (wire_check_request(&ask->request, ask->fd >= 0, link->config.staging_size) ||
	    wire_op_has_payload(ask->request.op) != !!ask->payload ||
	    (ask->payload && wire_check_payload(&ask->request, ask->payload)))
		return EINVAL;
	return -ask_table_add(&link->asks, ask);
}

void link_ask(struct link *link, struct ask *ask)
{
	int error;

	pthread_mutex_lock(&link->lock);
	error = link_accept_locked(link, ask);
	if (error)
		link_refuse_locked(link, ask, error);
	else if (!link->ending && !link->stopping)
		link_enqueue_locked(link, ask);
	/* Else it stays open until the worker is gone: whoever asks again asks another.
	 */
	pthread_mutex_unlock(&link->lock);
}

void link_stop(struct link *link, unsigned int seconds)
{
	pthread_mutex_lock(&link->lock);
	link->stopping = true;
	link->deadline = MIN(link->deadline, clock_ms() + (int64_t)seconds * 1000);
	link_wake(link);
	pthread_mutex_unlock(&link->lock);
}

void link_kill(struct link *link)
{
	pthread_mutex_lock(&link->lock);
	link_signal_locked(link);
	pthread_mutex_unlock(&link->lock);
}

enum link_state link_state(struct link *link)
{
	enum link_state state;

	pthread_mutex_lock(&link->lock);
	state = link->state;
	pthread_mutex_unlock(&link->lock);
	return state;
}

void link_reason(struct link *link, char *ret_reason, size_t size)
{
	pthread_mutex_lock(&link->lock);
	snprintf(ret_reason, size, "%s", link->state == LINK_ENDED ? link->reason : "");
	pthread_mutex_unlock(&link->lock);
}

pid_t link_pid(struct link *link)
{
	pid_t pid;

	pthread_mutex_lock(&link->lock);
	pid = link->pid;
	pthread_mutex_unlock(&link->lock);
	return pid;
}

unsigned int link_pending(struct link *link)
{
	unsigned int pending;

	pthread_mutex_lock(&link->lock);
	pending = link->asks.n_open;
	pthread_mutex_unlock(&link->lock);
	return pending;
}

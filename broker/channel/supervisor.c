/* SPDX-License-Identifier: MIT */
/*
 * The keeper: the thread that starts the worker, watches the deadlines and reaps the
 * worker.
 */
#include "channel/private.h"

#include "base/clock.h"
#include "channel/worker_spawn.h"
#include "protocol/wire.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

static void link_set_reason_from(struct link *link, int error)
{
	char reason[sizeof(link->reason)];

	snprintf(reason, sizeof(reason), "could not be started: %s",
		 strerrordesc_np(error) ?: "unknown error");
	pthread_mutex_lock(&link->lock);
	link_set_reason_locked(link, reason);
	pthread_mutex_unlock(&link->lock);
}

/* Starts the worker and opens a pidfd for it. Returns: 0; -errno. */
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
	if (link_open_ask_locked(link, &link->hello) ||
	    link_send_locked(link, &link->hello) < 0) {
		link_set_reason_locked(link, "could not be greeted: no memory");
		link_signal_locked(link);
	}
	pthread_mutex_unlock(&link->lock);
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
	if (link_can_send_locked(link) && link->queue && link->retry == NEVER)
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

/* Lets the receivers take the last replies, which may explain the end. */
static void link_drain(struct link *link)
{
	shutdown(link->socket, SHUT_RDWR);
	for (unsigned int i = 0; i < link->n_receivers; i++)
		pthread_join(link->receivers[i], NULL);
}

/* Reaps the process and sets the reason. */
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

/* The worker is gone and the receivers are done: answers all open requests. */
static void link_finish(struct link *link)
{
	const struct wire_reply nothing = { .error = EIO, .call = -1 };
	struct ask *ask;

	pthread_mutex_lock(&link->lock);
	link->ending = true;
	link->state = LINK_ENDED;
	link->queue = NULL;
	while ((ask = link->asks)) {
		HASH_DEL(link->asks, ask);
		pthread_mutex_unlock(&link->lock);
		ask_answer(ask, &nothing, true);
		pthread_mutex_lock(&link->lock);
	}
	link_answer_refused_locked(link);
	pthread_mutex_unlock(&link->lock);
	link->config.ended(link->config.userdata, link, link->reason);
}

/* Answers requests to the ended worker, until the link is freed. */
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

void *keeper_run(void *userdata)
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

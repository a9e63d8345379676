/* SPDX-License-Identifier: MIT */
/*
 * The supervisor, a thread of each channel: starts the worker process, sends queued
 * requests, watches the deadlines and reaps the process.
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

int channel_lost_error(const struct channel *channel)
{
	return channel->start_error ? channel->start_error : EIO;
}

bool channel_lacks_means(const struct channel *channel)
{
	return channel->start_error;
}

static void channel_set_reason_from(struct channel *channel, int error)
{
	char reason[sizeof(channel->reason)];

	snprintf(reason, sizeof(reason), "could not be started: %s",
		 strerrordesc_np(error) ?: "unknown error");
	pthread_mutex_lock(&channel->lock);
	channel_set_reason_locked(channel, reason);
	pthread_mutex_unlock(&channel->lock);
}

/* Starts the worker and opens a pidfd for it. Returns: 0; -errno. */
static int channel_start_process(struct channel *channel)
{
	struct process_record *record = NULL;
	_cleanup_close_ int pidfd = -1;
	pid_t pid;
	int r;

	r = worker_spawn(&channel->config, channel->worker_socket, channel->worker_urgent,
			 &pid);
	closep(&channel->worker_socket);
	closep(&channel->worker_urgent);
	closep(&channel->config.output_fd);
	if (r < 0)
		return r;
	pidfd = pidfd_open(pid, 0);
	if (pidfd < 0)
		r = -errno;
	else if (channel->config.started)
		r = channel->config.started(channel->config.userdata, pid, pidfd,
					    &record);
	if (r < 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return r;
	}
	pthread_mutex_lock(&channel->lock);
	channel->pid = pid;
	channel->pidfd = take_fd(&pidfd);
	channel->record = record;
	if (channel->kill)
		channel_signal_locked(channel);
	pthread_mutex_unlock(&channel->lock);
	return 0;
}

static void channel_say_hello(struct channel *channel)
{
	pthread_mutex_lock(&channel->lock);
	channel->hello = (struct request){
		.record = { .op = WIRE_HELLO,
			    .flags = channel->config.driver ? 0 : WIRE_FILES },
		.fd = -1,
		.done = channel_hello_done,
	};
	if (channel_open_request_locked(channel, &channel->hello) ||
	    channel_send_locked(channel, &channel->hello) < 0) {
		channel_set_reason_locked(channel, "could not be greeted: no memory");
		channel_signal_locked(channel);
	}
	pthread_mutex_unlock(&channel->lock);
}

static int channel_timeout_locked(struct channel *channel)
{
	int64_t until = MIN(channel->deadline, channel->retry);

	if (until == NEVER)
		return -1;
	return (int)MIN(MAX(until - clock_ms(), (int64_t)0), (int64_t)INT32_MAX);
}

static void channel_check_deadline_locked(struct channel *channel)
{
	if (clock_ms() < channel->deadline)
		return;
	channel->deadline = NEVER;
	channel_set_reason_locked(channel, channel->stopping
						   ? "did not stop in time"
						   : "closed its socket and lived on");
	channel_signal_locked(channel);
}

/* Waits for something to do. Returns: false when the process has ended. */
static bool channel_wait(struct channel *channel)
{
	struct pollfd fds[] = {
		{ .fd = channel->wake, .events = POLLIN },
		{ .fd = channel->pidfd, .events = POLLIN },
		{ .fd = -1, .events = POLLOUT },
	};
	eventfd_t value;
	int timeout;

	pthread_mutex_lock(&channel->lock);
	if (channel_can_send_locked(channel) && channel->queue && channel->retry == NEVER)
		fds[2].fd = channel_socket_of(channel, channel->queue);
	timeout = channel_timeout_locked(channel);
	pthread_mutex_unlock(&channel->lock);

	poll(fds, ARRAY_SIZE(fds), timeout);
	if (fds[0].revents)
		eventfd_read(channel->wake, &value);
	return !fds[1].revents;
}

static void channel_watch(struct channel *channel)
{
	while (channel_wait(channel)) {
		pthread_mutex_lock(&channel->lock);
		channel_flush_locked(channel);
		channel_check_deadline_locked(channel);
		channel_answer_refused_locked(channel);
		pthread_mutex_unlock(&channel->lock);
	}
}

/*
 * Lets the receivers take the last replies, which may explain the end. Then nobody takes
 * a reply any more; a thread that has looked may still be in a callback.
 */
static void channel_drain(struct channel *channel)
{
	shutdown(channel->socket, SHUT_RDWR);
	for (unsigned int i = 0; i < channel->n_receivers; i++)
		pthread_join(channel->receivers[i], NULL);
	pthread_mutex_lock(&channel->lock);
	channel_wait_let_go_locked(channel);
	pthread_mutex_unlock(&channel->lock);
}

/* Reaps the process and sets the reason. */
static void channel_bury(struct channel *channel)
{
	char reason[sizeof(channel->reason)];
	siginfo_t info = { 0 };

	if (waitid(P_PIDFD, (id_t)channel->pidfd, &info, WEXITED) < 0)
		snprintf(reason, sizeof(reason), "is gone");
	else if (info.si_code != CLD_EXITED)
		snprintf(reason, sizeof(reason), "was killed by signal %d",
			 info.si_status);
	else if (info.si_status || !channel->stopping)
		snprintf(reason, sizeof(reason), "exited with status %d", info.si_status);
	else
		snprintf(reason, sizeof(reason), "was stopped");

	pthread_mutex_lock(&channel->lock);
	channel_set_reason_locked(channel, reason);
	channel->pid = 0;
	pthread_mutex_unlock(&channel->lock);
}

/* The worker is gone and the receivers are done: answers all open requests. */
static void channel_finish(struct channel *channel)
{
	const struct wire_reply nothing = {
		.error = channel_lost_error(channel),
		.call = -1,
	};
	struct request *request;

	pthread_mutex_lock(&channel->lock);
	channel->ending = true;
	channel->state = CHANNEL_ENDED;
	channel->queue = NULL;
	while ((request = channel->open_requests)) {
		HASH_DEL(channel->open_requests, request);
		channel_note_busy_locked(channel);
		pthread_mutex_unlock(&channel->lock);
		request_answer(request, &nothing, true);
		pthread_mutex_lock(&channel->lock);
	}
	channel_answer_refused_locked(channel);
	pthread_mutex_unlock(&channel->lock);
	channel->config.ended(channel->config.userdata, channel, channel->reason);
}

/* Answers requests to the ended worker, until the channel is freed. */
static void channel_linger(struct channel *channel)
{
	eventfd_t value;
	bool freed;

	do {
		pthread_mutex_lock(&channel->lock);
		channel_answer_refused_locked(channel);
		freed = channel->freed;
		pthread_mutex_unlock(&channel->lock);
	} while (!freed && eventfd_read(channel->wake, &value) == 0);
}

void *supervisor_run(void *userdata)
{
	struct channel *channel = userdata;
	int r;

	r = channel_start_process(channel);
	if (r < 0) {
		channel->start_error = r == -EMFILE || r == -ENFILE ? -r : 0;
		channel_set_reason_from(channel, -r);
		channel_drain(channel);
	} else {
		channel_say_hello(channel);
		channel_watch(channel);
		channel_drain(channel);
		channel_bury(channel);
	}
	channel_finish(channel);
	channel_linger(channel);
	return NULL;
}

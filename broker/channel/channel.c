/* SPDX-License-Identifier: MIT */
/*
 * A worker, seen from the broker.
 *
 * There are two kinds of threads. The supervisor starts the worker, sends requests left
 * in the queue, watches the deadlines and reaps the worker. Receivers sleep in recvmsg()
 * on the socket, take a record each, and call back. A thread of the view that has just
 * sent a request may take records too, for a bounded time (look.h).
 *
 *     STARTING --HELLO answered--> READY --worker gone--> ENDED
 *         `------------------worker gone-------------------^
 *
 * The end begins with any of these, in whichever thread sees it first: the socket is
 * closed, a record breaks a rule, channel_kill(), channel_stop(). Then `ending` is set:
 * nothing is sent any more, and replies are ignored. Open requests are answered only when
 * the process has been reaped, so "lost" also means that the process no longer touches
 * the staging area for them. (A child process left behind by an owner's worker can still
 * write to the staging area of this owner.)
 *
 * A single lock, a leaf, guards all changing fields. Only nonblocking sends and signals
 * happen under the lock. A stopped worker stops reading: its socket fills and the queue
 * grows, but no thread waits.
 *
 * A descriptor sent by a worker never enters the broker: without a control buffer the
 * kernel drops the descriptor and sets MSG_CTRUNC.
 */
#define HASH_NONFATAL_OOM 1 /* a request without memory is refused */

#include "channel/private.h"

#include "base/clock.h"
#include "protocol/wire.h"
#include "record/types.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/socket.h>

void channel_wake(struct channel *channel)
{
	eventfd_write(channel->wake, 1);
}

void channel_signal_locked(struct channel *channel)
{
	channel->kill = true;
	if (channel->pidfd >= 0)
		pidfd_send_signal(channel->pidfd, SIGKILL, NULL, 0);
}

void channel_set_reason_locked(struct channel *channel, const char *reason)
{
	if (!channel->reason[0])
		snprintf(channel->reason, sizeof(channel->reason), "%s", reason);
}

static struct channel *channel_release(struct channel *channel)
{
	assert(!channel->open_requests);
	pthread_cond_destroy(&channel->let_go);
	pthread_mutex_destroy(&channel->lock);
	closep(&channel->socket);
	closep(&channel->urgent);
	closep(&channel->worker_socket);
	closep(&channel->worker_urgent);
	closep(&channel->wake);
	closep(&channel->pidfd);
	free(channel->receivers);
	free(channel->program);
	free(channel->driver);
	free(channel->name);
	free(channel);
	return NULL;
}

static void channel_releasep(struct channel **channel)
{
	if (*channel)
		channel_release(*channel);
}

static int channel_alloc(struct channel **ret_channel,
			 const struct channel_config *config)
{
	_cleanup_(channel_releasep) struct channel *channel = NULL;

	channel = calloc(1, sizeof(*channel));
	if (!channel)
		return -ENOMEM;
	channel->socket = channel->worker_socket = channel->wake = channel->pidfd = -1;
	channel->urgent = channel->worker_urgent = -1;
	channel->deadline = channel->retry = NEVER;
	channel->config = *config;
	pthread_mutex_init(&channel->lock, NULL);
	pthread_cond_init(&channel->let_go, NULL);
	channel->config.program = channel->program = strdup(config->program);
	if (config->driver)
		channel->config.driver = channel->driver = strdup(config->driver);
	channel->config.name = channel->name = strdup(config->name);
	channel->receivers = calloc(config->n_threads, sizeof(*channel->receivers));
	if (!channel->program || (config->driver && !channel->driver) || !channel->name ||
	    !channel->receivers)
		return -ENOMEM;
	*ret_channel = take_ptr(channel);
	return 0;
}

#ifndef SO_PASSRIGHTS /* Linux 6.16 */
#define SO_PASSRIGHTS 83
#endif

/*
 * Nothing comes from a worker that has a descriptor. To close one may take as long as a
 * user likes, and the broker would in the call that takes the record. Older kernels
 * deliver them.
 */
static void refuse_descriptors(int socket)
{
	(void)setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &(int){ 0 }, sizeof(int));
}

static int channel_open(struct channel *channel)
{
	int sockets[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return -errno;
	channel->socket = sockets[0];
	channel->worker_socket = sockets[1];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return -errno;
	channel->urgent = sockets[0];
	channel->worker_urgent = sockets[1];
	refuse_descriptors(channel->socket);
	refuse_descriptors(channel->urgent);
	channel->wake = eventfd(0, EFD_CLOEXEC);
	return channel->wake < 0 ? -errno : 0;
}

/*
 * The supervisor starts last: before it nothing has happened, and the receivers can be
 * stopped.
 */
static int channel_start_threads(struct channel *channel)
{
	int r = 0;

	while (r == 0 && channel->n_receivers < channel->config.n_threads) {
		r = pthread_create(&channel->receivers[channel->n_receivers], NULL,
				   receiver_run, channel);
		if (r == 0)
			channel->n_receivers++;
	}
	if (r == 0)
		r = pthread_create(&channel->supervisor, NULL, supervisor_run, channel);
	if (r == 0)
		return 0;

	shutdown(channel->socket, SHUT_RDWR);
	for (unsigned int i = 0; i < channel->n_receivers; i++)
		pthread_join(channel->receivers[i], NULL);
	return -r;
}

int channel_new(struct channel **ret_channel, const struct channel_config *config)
{
	_cleanup_(channel_releasep) struct channel *channel = NULL;
	sigset_t all, before;
	int r;

	assert(config->n_threads >= 1);
	r = channel_alloc(&channel, config);
	if (r < 0)
		return r;
	r = channel_open(channel);
	if (r < 0)
		return r;

	/* Signals are for the program's own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = channel_start_threads(channel);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r < 0)
		return r;
	*ret_channel = take_ptr(channel);
	return 0;
}

struct channel *channel_free(struct channel *channel)
{
	if (!channel)
		return NULL;
	pthread_mutex_lock(&channel->lock);
	channel->freed = true;
	channel_signal_locked(channel);
	channel_wake(channel);
	pthread_mutex_unlock(&channel->lock);
	pthread_join(channel->supervisor, NULL);
	/* A thread may have asked after the end. */
	pthread_mutex_lock(&channel->lock);
	channel_wait_let_go_locked(channel);
	pthread_mutex_unlock(&channel->lock);
	return channel_release(channel);
}

void channel_note_busy_locked(struct channel *channel)
{
	struct process_record *record = channel->record;
	bool busy = channel->open_requests && channel->state != CHANNEL_STARTING;

	if (record && record->busy != busy)
		__atomic_store_n(&record->busy, busy, __ATOMIC_RELEASE);
}

int channel_open_request_locked(struct channel *channel, struct request *request)
{
	request->text = NULL;
	request->record.id = ++channel->last_id;
	request->sent = false;
	HASH_ADD(hh, channel->open_requests, record.id, sizeof(request->record.id),
		 request);
	channel_note_busy_locked(channel);
	return request->hh.tbl ? 0 : ENOMEM;
}

static int channel_accept_locked(struct channel *channel, struct request *request)
{
	if (channel->state == CHANNEL_ENDED)
		return channel_lost_error(channel);
	if (wire_check_request(&request->record, request->fd >= 0,
			       channel->config.staging_size) ||
	    wire_op_has_payload(request->record.op) != !!request->payload ||
	    (request->payload && wire_check_payload(&request->record, request->payload)))
		return EINVAL;
	return channel_open_request_locked(channel, request);
}

void channel_send(struct channel *channel, struct request *request)
{
	int error;

	pthread_mutex_lock(&channel->lock);
	error = channel_accept_locked(channel, request);
	if (error)
		channel_refuse_locked(channel, request, error);
	else if (!channel->ending && !channel->stopping)
		channel_enqueue_locked(channel, request);
	/*
	 * Otherwise the request stays open until the worker is gone; new requests go to
	 * another worker.
	 */
	pthread_mutex_unlock(&channel->lock);
	channel_asked(channel);
}

void channel_stop(struct channel *channel, unsigned int seconds)
{
	pthread_mutex_lock(&channel->lock);
	channel->stopping = true;
	channel->deadline = MIN(channel->deadline, clock_ms() + (int64_t)seconds * 1000);
	channel_wake(channel);
	pthread_mutex_unlock(&channel->lock);
}

void channel_kill(struct channel *channel)
{
	pthread_mutex_lock(&channel->lock);
	channel_signal_locked(channel);
	pthread_mutex_unlock(&channel->lock);
}

enum channel_state channel_state(struct channel *channel)
{
	enum channel_state state;

	pthread_mutex_lock(&channel->lock);
	state = channel->state;
	pthread_mutex_unlock(&channel->lock);
	return state;
}

void channel_reason(struct channel *channel, char *ret_reason, size_t size)
{
	pthread_mutex_lock(&channel->lock);
	snprintf(ret_reason, size, "%s",
		 channel->state == CHANNEL_ENDED ? channel->reason : "");
	pthread_mutex_unlock(&channel->lock);
}

pid_t channel_pid(struct channel *channel)
{
	pid_t pid;

	pthread_mutex_lock(&channel->lock);
	pid = channel->pid;
	pthread_mutex_unlock(&channel->lock);
	return pid;
}

unsigned int channel_pending(struct channel *channel)
{
	unsigned int pending;

	pthread_mutex_lock(&channel->lock);
	pending = HASH_COUNT(channel->open_requests);
	pthread_mutex_unlock(&channel->lock);
	return pending;
}

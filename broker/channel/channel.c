/* SPDX-License-Identifier: MIT */
/*
 * A worker, seen from the broker.
 *
 * There are two kinds of threads. The keeper starts the worker, sends requests left in
 * the queue, watches the deadlines and reaps the worker. Receivers sleep in recvmsg() on
 * the socket, take a record each, and call back.
 *
 *     STARTING --HELLO answered--> READY --worker gone--> ENDED
 *         `------------------worker gone-------------------^
 *
 * The end begins with any of these, in whichever thread sees it first: the socket is
 * closed, a record breaks a rule, link_kill(), link_stop(). Then `ending` is set: nothing
 * is sent any more, and replies are ignored. Open requests are answered only when the
 * process has been reaped, so "lost" also means that the process no longer touches the
 * staging area for them. (A child process left behind by an owner's worker can still
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

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/socket.h>

void link_wake(struct link *link)
{
	eventfd_write(link->wake, 1);
}

void link_signal_locked(struct link *link)
{
	link->kill = true;
	if (link->pidfd >= 0)
		pidfd_send_signal(link->pidfd, SIGKILL, NULL, 0);
}

void link_set_reason_locked(struct link *link, const char *reason)
{
	if (!link->reason[0])
		snprintf(link->reason, sizeof(link->reason), "%s", reason);
}

static struct link *link_release(struct link *link)
{
	assert(!link->asks);
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

/*
 * The keeper starts last: before it nothing has happened, and the receivers can be
 * stopped.
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

int link_open_ask_locked(struct link *link, struct ask *ask)
{
	ask->request.id = ++link->last_id;
	ask->sent = false;
	HASH_ADD(hh, link->asks, request.id, sizeof(ask->request.id), ask);
	return ask->hh.tbl ? 0 : ENOMEM;
}

static int link_accept_locked(struct link *link, struct ask *ask)
{
	if (link->state == LINK_ENDED)
		return EIO;
	if (wire_check_request(&ask->request, ask->fd >= 0, link->config.staging_size) ||
	    wire_op_has_payload(ask->request.op) != !!ask->payload ||
	    (ask->payload && wire_check_payload(&ask->request, ask->payload)))
		return EINVAL;
	return link_open_ask_locked(link, ask);
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
	/*
	 * Otherwise the request stays open until the worker is gone; new requests go to
	 * another worker.
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
	pending = HASH_COUNT(link->asks);
	pthread_mutex_unlock(&link->lock);
	return pending;
}

/* SPDX-License-Identifier: MIT */
/*
 * A loop in place of libfuse's, for one reason: requests are read straight into the
 * buffers shared by the broker and the mover, so the GPU can take the payload of a write
 * from there. A handler may keep the buffer of its thread (broker_write); the thread then
 * gets another. Without memory for another the thread reads into a private buffer, which
 * no handler can keep: then a write of data is answered ENOMEM, and all else goes on.
 *
 * A request that may take long goes to a thread of its own (slow_lane.h). So does a read
 * whose bytes a handler copies itself, where other requests wait.
 *
 * A signal interrupts the read of a thread to stop the thread, and is sent again until
 * the thread has ended.
 */
#include "transport_private.h"

#include "base/clock.h"
#include "base/def.h"
#include "kernel.h"

#include <errno.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <utlist.h>

#define STOP_SIGNAL SIGUSR1
#define STOP_MS	    20
/* A write of 1 MiB and the headers before the payload: libfuse reads no more. */
#define REQUEST_MAX ((1 << 20) + 4096)

static _Thread_local struct buffer *current;
static _Thread_local struct transport *of_thread;
static _Thread_local bool is_put_off[N_TRANSPORT_LANES];
static _Thread_local int device; /* the descriptor of requests */
static _Thread_local uint64_t
	unique; /* of the request, with a bit of its own when again */

static _Thread_local const void *asked;

const void *transport_request(void)
{
	return asked;
}

bool transport_is_awaited(void)
{
	struct pollfd requests = { .fd = device, .events = POLLIN };

	return poll(&requests, 1, 0) > 0;
}

uint64_t transport_unique(void)
{
	return transport_unique_of(unique);
}

bool transport_is_again(void)
{
	return unique >> 63;
}

struct buffer *transport_buffer(void)
{
	return current;
}

/* ---- the threads ---- */

static void thread_begin(struct transport *transport)
{
	of_thread = transport;
	device = fuse_session_fd(transport->session);
}

/* What follows is about this request. */
static void request_begin(const struct fuse_buf *request)
{
	unique = ((const struct fuse_in_header *)request->mem)->unique;
	asked = request->mem;
	kernel_look(request);
}

/* Has libfuse call the handler. */
static void process(struct transport *transport, const struct fuse_buf *request)
{
	broker_look_begin();
	fuse_session_process_buf(transport->session, request);
	broker_look_end();
}

static void handle(struct transport *transport, const struct fuse_buf *request)
{
	request_begin(request);
	if (!transport->look || !transport->look(transport->userdata, request))
		process(transport, request);
}

/* In the thread of the slow lane. */
static void handle_slow(void *userdata, const struct fuse_buf *request)
{
	struct transport *transport = userdata;

	thread_begin(transport);
	transport->slow.learn(transport->userdata, request);
	handle(transport, request);
}

/* In the thread of a lane: requests that were put off, and looked at before. */
static void handle_put_off(struct transport *transport, const struct fuse_buf *request,
			   enum transport_lane lane)
{
	thread_begin(transport);
	is_put_off[lane] = true;
	request_begin(request);
	process(transport, request);
}

static void handle_sockets(void *userdata, const struct fuse_buf *request)
{
	handle_put_off(userdata, request, TRANSPORT_SOCKETS);
}

static void handle_bulk(void *userdata, const struct fuse_buf *request)
{
	handle_put_off(userdata, request, TRANSPORT_BULK);
}

bool transport_put_off(enum transport_lane lane, uint64_t user)
{
	const struct fuse_in_header *header = asked;

	return slow_lane_add(
		&of_thread->lanes[lane], user,
		&(struct fuse_buf){ .size = header->len, .mem = (void *)asked });
}

bool transport_is_put_off(enum transport_lane lane)
{
	return is_put_off[lane];
}

/* One thread may copy, as long as nobody waits. */
bool transport_is_in_the_way(size_t size)
{
	bool alone;

	if (size < LARGE)
		return false;
	pthread_mutex_lock(&of_thread->lock);
	alone = of_thread->n_handling <= 1;
	pthread_mutex_unlock(&of_thread->lock);
	return !alone || transport_is_awaited();
}

static bool is_put_aside(struct transport *transport, const struct fuse_buf *request)
{
	uint64_t user;

	return transport->slow.is &&
	       transport->slow.is(transport->userdata, request, &user) &&
	       slow_lane_add(&transport->lanes[TRANSPORT_SLOW], user, request);
}

/* Takes a request and has the handler called. Returns: go on? */
static bool serve(struct thread *thread)
{
	struct transport *transport = thread->transport;
	struct buffer *shared = &thread->shared;
	struct fuse_buf request = { 0 };
	int length;

	if (!shared->memory && broker_buffer_get(transport->broker, shared))
		shared->memory = NULL;
	current = shared->memory ? shared : NULL;
	request.mem = current ? shared->memory : thread->own;
	request.size = current ? shared->size : REQUEST_MAX;
	transport_turn_look_ahead(thread);
	length = fuse_session_receive_buf(transport->session, &request);
	if (length == -EINTR || length == -EAGAIN || length == -ENOMEM)
		return true;
	if (length <= 0)
		return false;
	transport_turn_use(thread, &request);
	if (is_put_aside(transport, &request))
		return true;
	handle(transport, &request);
	if (!__atomic_exchange_n(&transport->is_answering, 1, __ATOMIC_RELAXED))
		transport->answering(transport->userdata);
	return true;
}

static void *run(void *data)
{
	_cleanup_free_ struct thread *thread = data;
	struct transport *transport = thread->transport;

	thread->id = pthread_self();
	thread_begin(transport);
	while (transport_turn_take(thread) && serve(thread))
		;
	if (thread->shared.memory)
		broker_buffer_put(transport->broker, &thread->shared);
	free(thread->own);
	fuse_session_exit(transport->session);
	if (!__atomic_exchange_n(&transport->has_ended, 1, __ATOMIC_RELAXED))
		transport->ended(transport->userdata);
	pthread_mutex_lock(&transport->lock);
	transport_turn_leave(thread);
	transport->n_serving--;
	pthread_cond_broadcast(&transport->turn);
	pthread_cond_broadcast(&transport->left);
	pthread_mutex_unlock(&transport->lock);
	return NULL;
}

static void on_stop(int signal)
{
	(void)signal;
}

static int start_one(struct transport *transport)
{
	struct thread *thread = calloc(1, sizeof(*thread));
	int error = thread ? 0 : ENOMEM;

	if (thread) {
		thread->transport = transport;
		thread->shared.slot = -1;
		thread->own = malloc(REQUEST_MAX);
		error = thread->own ? 0 : ENOMEM;
	}
	if (!error)
		error = pthread_create(&transport->threads[transport->n_threads], NULL,
				       run, thread);
	if (!error) {
		transport->n_threads++;
		pthread_mutex_lock(&transport->lock);
		transport->n_serving++;
		pthread_mutex_unlock(&transport->lock);
		return 0;
	}
	if (thread)
		free(thread->own);
	free(thread);
	return -error;
}

static void (*const serve_lane[N_TRANSPORT_LANES])(void *userdata,
						   const struct fuse_buf *request) = {
	[TRANSPORT_SLOW] = handle_slow,
	[TRANSPORT_SOCKETS] = handle_sockets,
	[TRANSPORT_BULK] = handle_bulk,
};

static void lanes_hold(struct transport *transport, bool held)
{
	for (unsigned int i = 0; i < N_TRANSPORT_LANES; i++)
		slow_lane_hold(&transport->lanes[i], held);
}

static int start(struct transport *transport)
{
	struct sigaction action = { .sa_handler = on_stop };
	int error = 0;

	sigaction(STOP_SIGNAL, &action, NULL);
	error = watchdog_init(&transport->watchdog, transport_turn_look_after, transport);
	transport->watched = !error;
	while (!error && transport->n_lanes < N_TRANSPORT_LANES) {
		error = slow_lane_init(&transport->lanes[transport->n_lanes],
				       serve_lane[transport->n_lanes], transport);
		transport->n_lanes += !error;
	}
	while (!error && transport->n_threads < N_THREADS)
		error = start_one(transport);
	return error;
}

int transport_new(struct transport **ret_transport, struct fuse_session *session,
		  struct broker *broker, transport_look *look, struct transport_slow slow,
		  void (*answering)(void *userdata), void (*ended)(void *userdata),
		  void *userdata)
{
	struct transport *transport = calloc(1, sizeof(*transport));
	int error;

	if (!transport)
		return -ENOMEM;
	pthread_mutex_init(&transport->lock, NULL);
	clock_cond_init(&transport->left);
	pthread_cond_init(&transport->turn, NULL);
	transport->session = session;
	transport->broker = broker;
	transport->look = look;
	transport->slow = slow;
	transport->answering = answering;
	transport->ended = ended;
	transport->userdata = userdata;
	error = start(transport);
	if (error) {
		transport_free(transport);
		return error;
	}
	*ret_transport = transport;
	return 0;
}

/* Interrupts the reads of the threads until all have ended: a signal can come just before
 * a read. */
static void stop(struct transport *transport)
{
	pthread_mutex_lock(&transport->lock);
	pthread_cond_broadcast(&transport->turn);
	while (transport->n_serving) {
		for (unsigned int i = 0; i < transport->n_threads; i++)
			pthread_kill(transport->threads[i], STOP_SIGNAL);
		clock_cond_wait(&transport->left, &transport->lock, clock_ms() + STOP_MS);
	}
	pthread_mutex_unlock(&transport->lock);
	for (unsigned int i = 0; i < transport->n_threads; i++)
		pthread_join(transport->threads[i], NULL);
}

/* Interrupts the threads that read until all are parked. */
void transport_pause(struct transport *transport)
{
	const struct thread *thread;

	pthread_mutex_lock(&transport->lock);
	transport->paused = true;
	pthread_cond_broadcast(&transport->turn);
	while (transport->n_parked < transport->n_serving &&
	       !fuse_session_exited(transport->session)) {
		DL_FOREACH (transport->reading, thread)
			pthread_kill(thread->id, STOP_SIGNAL);
		clock_cond_wait(&transport->left, &transport->lock, clock_ms() + STOP_MS);
	}
	pthread_mutex_unlock(&transport->lock);
	lanes_hold(transport, true);
}

unsigned int transport_n_left(struct transport *transport)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < N_TRANSPORT_LANES; i++)
		n += slow_lane_n_left(&transport->lanes[i]);
	return n;
}

void transport_go_on(struct transport *transport)
{
	pthread_mutex_lock(&transport->lock);
	transport->paused = false;
	pthread_cond_broadcast(&transport->turn);
	pthread_mutex_unlock(&transport->lock);
	lanes_hold(transport, false);
}

struct transport *transport_free(struct transport *transport)
{
	if (!transport)
		return NULL;
	fuse_session_exit(transport->session);
	stop(transport);
	while (transport->n_lanes)
		slow_lane_deinit(&transport->lanes[--transport->n_lanes]);
	if (transport->watched)
		watchdog_deinit(&transport->watchdog);
	pthread_cond_destroy(&transport->turn);
	pthread_cond_destroy(&transport->left);
	pthread_mutex_destroy(&transport->lock);
	free(transport);
	return NULL;
}

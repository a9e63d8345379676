/* SPDX-License-Identifier: MIT */
/*
 * A loop in place of libfuse's, for one reason: requests are read straight into the
 * buffers shared by the broker and the mover, so the GPU can take the payload of a write
 * from there. A handler may keep the buffer of its thread (broker_write); the thread then
 * gets another. Without memory for another the thread reads into a private buffer, which
 * no handler can keep: then a write of data is answered ENOMEM, and all else goes on.
 *
 * No handler waits for a GPU, so a few threads are enough. A signal interrupts the read
 * of a thread to stop the thread, and is sent again until the thread has ended.
 */
#include "transport.h"

#include "base/clock.h"
#include "base/def.h"
#include "kernel.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

/* None of them waits for anything, and the kernel wakes them in turn: more are only
 * colder. */
#define N_THREADS   4
#define STOP_SIGNAL SIGUSR1
#define STOP_MS	    20
/* A write of 1 MiB and the headers before the payload: libfuse reads no more. */
#define REQUEST_MAX ((1 << 20) + 4096)

struct transport {
	struct fuse_session *session;
	struct broker *broker;
	void (*answering)(void *userdata);
	void (*ended)(void *userdata);
	void *userdata;
	int is_answering; /* atomic */
	int has_ended;	  /* atomic */
	unsigned int n_threads;
	pthread_t threads[N_THREADS];
	pthread_mutex_t lock;
	pthread_cond_t left;
	unsigned int n_serving; /* threads; lock */
};

static _Thread_local struct buffer *current;

struct buffer *transport_buffer(void)
{
	return current;
}

/* A thread, and the buffer for requests. */
struct thread {
	struct transport *transport;
	struct buffer shared; /* memory NULL: none */
	uint8_t *own;	      /* REQUEST_MAX bytes */
};

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
	length = fuse_session_receive_buf(transport->session, &request);
	if (length == -EINTR || length == -EAGAIN || length == -ENOMEM)
		return true;
	if (length <= 0)
		return false;
	kernel_look(&request);
	fuse_session_process_buf(transport->session, &request);
	if (!__atomic_exchange_n(&transport->is_answering, 1, __ATOMIC_RELAXED))
		transport->answering(transport->userdata);
	return true;
}

static void *run(void *data)
{
	_cleanup_free_ struct thread *thread = data;
	struct transport *transport = thread->transport;

	while (!fuse_session_exited(transport->session) && serve(thread))
		;
	if (thread->shared.memory)
		broker_buffer_put(transport->broker, &thread->shared);
	free(thread->own);
	fuse_session_exit(transport->session);
	if (!__atomic_exchange_n(&transport->has_ended, 1, __ATOMIC_RELAXED))
		transport->ended(transport->userdata);
	pthread_mutex_lock(&transport->lock);
	transport->n_serving--;
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

static int start(struct transport *transport)
{
	struct sigaction action = { .sa_handler = on_stop };
	int error = 0;

	sigaction(STOP_SIGNAL, &action, NULL);
	while (!error && transport->n_threads < N_THREADS)
		error = start_one(transport);
	return error;
}

int transport_new(struct transport **ret_transport, struct fuse_session *session,
		  struct broker *broker, void (*answering)(void *userdata),
		  void (*ended)(void *userdata), void *userdata)
{
	struct transport *transport = calloc(1, sizeof(*transport));
	int error;

	if (!transport)
		return -ENOMEM;
	pthread_mutex_init(&transport->lock, NULL);
	clock_cond_init(&transport->left);
	transport->session = session;
	transport->broker = broker;
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
	while (transport->n_serving) {
		for (unsigned int i = 0; i < transport->n_threads; i++)
			pthread_kill(transport->threads[i], STOP_SIGNAL);
		clock_cond_wait(&transport->left, &transport->lock, clock_ms() + STOP_MS);
	}
	pthread_mutex_unlock(&transport->lock);
	for (unsigned int i = 0; i < transport->n_threads; i++)
		pthread_join(transport->threads[i], NULL);
}

struct transport *transport_free(struct transport *transport)
{
	if (!transport)
		return NULL;
	fuse_session_exit(transport->session);
	stop(transport);
	pthread_cond_destroy(&transport->left);
	pthread_mutex_destroy(&transport->lock);
	free(transport);
	return NULL;
}

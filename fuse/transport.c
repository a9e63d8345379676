/* SPDX-License-Identifier: MIT */
/*
 * A loop of our own in place of libfuse's, for one reason: requests are read straight
 * into the buffers that the broker shares with the mover, so the payload of a write is
 * where the GPU can take it. A handler that keeps its buffer takes it out of the thread's
 * hands (broker_write), which then gets another.
 *
 * No handler waits for a GPU, so a few threads are enough. They are stopped by a signal
 * that interrupts their read, again until they have gone.
 */
#include "transport.h"

#include "base/def.h"
#include "kernel.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

/* None of them waits for anything, and the kernel wakes them in turn: more are only
 * colder. */
#define N_THREADS   4
#define STOP_SIGNAL SIGUSR1
#define STOP_MS	    20

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
};

static _Thread_local struct buffer *current;

struct buffer *transport_buffer(void)
{
	return current;
}

/* Takes one request and has it handled. Returns: go on? */
static bool serve(struct transport *transport, struct buffer *buffer)
{
	struct fuse_buf request = { 0 };
	int length;

	if (!buffer->memory && broker_buffer_get(transport->broker, buffer))
		return false;
	request.mem = buffer->memory;
	request.size = buffer->size;
	length = fuse_session_receive_buf(transport->session, &request);
	if (length == -EINTR || length == -EAGAIN)
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
	struct transport *transport = data;
	struct buffer buffer = { .slot = -1 };

	current = &buffer;
	while (!fuse_session_exited(transport->session) && serve(transport, &buffer))
		;
	if (buffer.memory)
		broker_buffer_put(transport->broker, &buffer);
	fuse_session_exit(transport->session);
	if (!__atomic_exchange_n(&transport->has_ended, 1, __ATOMIC_RELAXED))
		transport->ended(transport->userdata);
	return NULL;
}

static void on_stop(int signal)
{
	(void)signal;
}

static int start(struct transport *transport)
{
	struct sigaction action = { .sa_handler = on_stop };
	int error;

	sigaction(STOP_SIGNAL, &action, NULL);
	for (int i = 0; i < N_THREADS; i++) {
		error = pthread_create(&transport->threads[i], NULL, run, transport);
		if (error)
			return -error;
		transport->n_threads++;
	}
	return 0;
}

int transport_new(struct transport **ret_transport, struct fuse_session *session,
		  struct broker *broker, void (*answering)(void *userdata),
		  void (*ended)(void *userdata), void *userdata)
{
	struct transport *transport = calloc(1, sizeof(*transport));
	int error;

	if (!transport)
		return -ENOMEM;
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

/* Interrupts a thread's read until it has gone: a signal can come just before the read.
 */
static void stop(pthread_t thread)
{
	struct timespec until;
	int error;

	do {
		pthread_kill(thread, STOP_SIGNAL);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += STOP_MS * 1000000L;
		until.tv_sec += until.tv_nsec / 1000000000L;
		until.tv_nsec %= 1000000000L;
		error = pthread_timedjoin_np(thread, NULL, &until);
	} while (error == ETIMEDOUT);
}

struct transport *transport_free(struct transport *transport)
{
	if (!transport)
		return NULL;
	fuse_session_exit(transport->session);
	for (unsigned int i = 0; i < transport->n_threads; i++)
		stop(transport->threads[i]);
	free(transport);
	return NULL;
}

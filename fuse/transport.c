/* SPDX-License-Identifier: MIT */
/*
 * A loop in place of libfuse's, for one reason: requests are read straight into the
 * buffers shared by the broker and the mover, so the GPU can take the payload of a write
 * from there. A handler may keep the buffer of its thread (broker_write); the thread then
 * gets another. Without memory for another the thread reads into a private buffer, which
 * no handler can keep: then a write of data is answered ENOMEM, and all else goes on.
 *
 * One thread at a time has the turn to read. If several slept in read, the kernel would
 * wake them in turn, each cold and on a sleeping processor. So the thread handles a
 * request with the turn in hand and then reads the next. Before a large request the
 * thread passes the turn on, since copying takes longer than to wake another thread. No
 * handler waits for a GPU; a handler that takes long all the same loses the turn to
 * another thread (look_after()).
 *
 * Before it sleeps, the thread with the turn looks for the next request for a moment
 * (base/look.h): the next line of a program follows soon after an answer. This needs two
 * processors only, since the moment is short. Under a hypervisor a processor without work
 * is given away, and it takes longer to have one back than most requests take.
 *
 * A request that may take long goes to a thread of its own (slow_lane.h). So does a read
 * whose bytes a handler copies itself, where other requests wait.
 *
 * While requests keep coming before the last one is handled, all threads read, with or
 * without the turn: passing the turn at each request would wake a thread each time. The
 * kernel copies the bytes of a write in the read, so a large write with another request
 * behind it is enough for that. The thread with the turn looks for such requests, at the
 * cost of a system call; while all threads read, those that handle are counted instead.
 *
 * A signal interrupts the read of a thread to stop the thread, and is sent again until
 * the thread has ended.
 */
#include "transport.h"

#include "base/clock.h"
#include "base/def.h"
#include "base/look.h"
#include "base/watchdog.h"
#include "kernel.h"
#include "slow_lane.h"

#include <errno.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <utlist.h>

#define N_THREADS 4
/* From here on the turn is passed on. */
#define LARGE 65536
/*
 * Load goes up by one at a request that found another one behind it, and else down by
 * CALM. A program that closes a file leaves a few requests behind (RELEASE, FORGET), and
 * two programs at once are behind each other half of the time: both are no load.
 */
#define LOAD_MAX  16u /* from here on all threads read */
#define CALM	  2u
#define CALM_LOAD 4u /* up to here the reader looks for the next request */
/* So long all threads read after the last sign of more requests than one thread handles.
 */
#define CROWD_NS 10000000
/* Requests handled at a time that are such a sign when all threads read. */
#define CROWD_HANDLES 3
/* Longer than a program that was waiting takes to wake and to ask again. */
#define LOOK_NS	    20000
#define READER_CPUS 2 /* with fewer the reader does not look */
#define STOP_SIGNAL SIGUSR1
#define STOP_MS	    20
/* A write of 1 MiB and the headers before the payload: libfuse reads no more. */
#define REQUEST_MAX ((1 << 20) + 4096)

struct transport {
	struct fuse_session *session;
	struct broker *broker;
	transport_look *look;
	struct transport_slow slow;
	struct slow_lane lanes[N_TRANSPORT_LANES];
	unsigned int n_lanes; /* with a thread */
	void (*answering)(void *userdata);
	void (*ended)(void *userdata);
	void *userdata;
	int is_answering; /* atomic */
	int has_ended;	  /* atomic */
	unsigned int n_threads;
	pthread_t threads[N_THREADS];
	struct watchdog watchdog;
	bool watched;
	struct look looks;    /* of the thread with the turn, which alone uses them */
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t left;
	pthread_cond_t turn;	/* is free, or the session ends */
	unsigned int n_serving; /* threads */
	bool paused;
	unsigned int n_parked;	     /* threads, while paused */
	const struct thread *reader; /* has the turn; NULL: nobody */
	struct thread *reading;	     /* threads, with or without the turn */
	unsigned int n_handling;     /* threads */
	uint64_t crowd_until_ns;     /* CLOCK_MONOTONIC; until then all threads read */
	unsigned int load;	     /* see LOAD_MAX */
	uint64_t n_handled;	     /* requests begun with the turn in hand */
	uint64_t n_seen;	     /* of them when the watchdog looked */
	uint64_t n_read;	     /* requests, by all threads */
	uint64_t n_lived;	     /* of them at the last transport_lives() */
};

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

/* A thread, and the buffer for requests. */
struct thread {
	struct transport *transport;
	pthread_t id;
	struct buffer shared; /* memory NULL: none */
	uint8_t *own;	      /* REQUEST_MAX bytes */
	bool is_reading, is_handling;
	bool in_crowd;		    /* all read when this thread began to read */
	bool is_calm;		    /* one program at a time asked then */
	struct thread *prev, *next; /* of transport->reading */
};

/* ---- the turn ---- */

/* Waits for a while, without the turn. Called with the lock. */
static void park(const struct thread *thread)
{
	struct transport *transport = thread->transport;

	if (transport->reader == thread)
		transport->reader = NULL;
	transport->n_parked++;
	pthread_cond_broadcast(&transport->left);
	pthread_cond_wait(&transport->turn, &transport->lock);
	transport->n_parked--;
}

static bool crowd_reads(const struct transport *transport)
{
	return transport->crowd_until_ns &&
	       clock_ns(CLOCK_MONOTONIC) < transport->crowd_until_ns;
}

/* The thread may read from now on. */
static void reading_begin_locked(struct thread *thread, bool in_crowd)
{
	struct transport *transport = thread->transport;

	if (!transport->reader)
		transport->reader = thread;
	thread->is_reading = true;
	DL_APPEND(transport->reading, thread);
	thread->in_crowd = in_crowd;
	/* Several programs need the processors themselves. */
	thread->is_calm = !in_crowd && transport->load < CALM_LOAD;
}

static void reading_end_locked(struct thread *thread)
{
	if (thread->is_reading)
		DL_DELETE(thread->transport->reading, thread);
	thread->is_reading = false;
}

static void handling_end_locked(struct thread *thread)
{
	thread->transport->n_handling -= thread->is_handling;
	thread->is_handling = false;
}

/* Waits until the thread may read. Returns: false at the end of the session. */
static bool turn_take(struct thread *thread)
{
	struct transport *transport = thread->transport;
	bool in_crowd = false, mine;

	pthread_mutex_lock(&transport->lock);
	reading_end_locked(thread);
	handling_end_locked(thread);
	while (!fuse_session_exited(transport->session)) {
		in_crowd = crowd_reads(transport);
		if (transport->paused)
			park(thread);
		else if (transport->reader && transport->reader != thread && !in_crowd)
			pthread_cond_wait(&transport->turn, &transport->lock);
		else
			break;
	}
	mine = !fuse_session_exited(transport->session);
	if (mine)
		reading_begin_locked(thread, in_crowd);
	pthread_mutex_unlock(&transport->lock);
	return mine;
}

static void turn_pass_locked(struct transport *transport)
{
	transport->reader = NULL;
	pthread_cond_signal(&transport->turn);
}

static bool request_is_large(const struct fuse_buf *request)
{
	const struct fuse_in_header *header = request->mem;
	const struct fuse_read_in *read = (const void *)(header + 1);

	return request->size >= LARGE ||
	       (header->opcode == FUSE_READ &&
		request->size >= sizeof(*header) + sizeof(*read) && read->size >= LARGE);
}

/* All threads read for a while. */
static void crowd_begin_locked(struct transport *transport)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);

	if (now_ns >= transport->crowd_until_ns)
		pthread_cond_broadcast(&transport->turn);
	transport->crowd_until_ns = now_ns + CROWD_NS;
}

/* Whether there are more requests than one thread handles. */
static bool load_note_locked(struct transport *transport, const struct thread *thread,
			     bool followed)
{
	if (thread->in_crowd)
		return transport->n_handling >= CROWD_HANDLES;
	if (followed)
		transport->load = MIN(transport->load + 1, LOAD_MAX);
	else
		transport->load -= MIN(transport->load, CALM);
	return transport->load == LOAD_MAX;
}

/* The thread has read a request: goes on with the turn, or passes the turn on. */
static void turn_use(struct thread *thread, const struct fuse_buf *request)
{
	struct transport *transport = thread->transport;
	bool is_large = request->size >= LARGE;
	bool followed = (!thread->in_crowd || is_large) && transport_is_awaited();
	bool kept = false;

	pthread_mutex_lock(&transport->lock);
	reading_end_locked(thread);
	thread->is_handling = true;
	transport->n_handling++;
	transport->n_read++;
	if (load_note_locked(transport, thread, followed) || (followed && is_large))
		crowd_begin_locked(transport);
	if (transport->reader == thread) {
		kept = !request_is_large(request) && !crowd_reads(transport);
		transport->n_handled += kept;
		if (!kept)
			turn_pass_locked(transport);
	}
	pthread_mutex_unlock(&transport->lock);
	if (kept)
		watchdog_wake(&transport->watchdog);
}

/* Takes the turn from a thread that handled the same request at the last look. */
static bool look_after(void *userdata)
{
	struct transport *transport = userdata;
	bool busy;

	pthread_mutex_lock(&transport->lock);
	busy = transport->n_handled != transport->n_seen;
	if (!busy && transport->reader && !transport->reader->is_reading)
		turn_pass_locked(transport);
	transport->n_seen = transport->n_handled;
	pthread_mutex_unlock(&transport->lock);
	return busy;
}

bool transport_lives(void *userdata)
{
	struct transport *transport = userdata;
	struct pollfd requests = { .fd = fuse_session_fd(transport->session),
				   .events = POLLIN };
	bool lives;

	pthread_mutex_lock(&transport->lock);
	lives = transport->paused || transport->n_read != transport->n_lived;
	transport->n_lived = transport->n_read;
	pthread_mutex_unlock(&transport->lock);
	return lives || poll(&requests, 1, 0) <= 0;
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

static bool is_awaited(void *userdata)
{
	(void)userdata;
	return transport_is_awaited();
}

/* Looks for the next request. A thread without the turn sleeps at once. */
static void look_ahead(const struct thread *thread)
{
	struct look *looks = &thread->transport->looks;

	if (thread->is_calm && look_has_cpus(READER_CPUS) && look_is_due(looks))
		look_for(looks, LOOK_NS, is_awaited, NULL);
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
	look_ahead(thread);
	length = fuse_session_receive_buf(transport->session, &request);
	if (length == -EINTR || length == -EAGAIN || length == -ENOMEM)
		return true;
	if (length <= 0)
		return false;
	turn_use(thread, &request);
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
	while (turn_take(thread) && serve(thread))
		;
	if (thread->shared.memory)
		broker_buffer_put(transport->broker, &thread->shared);
	free(thread->own);
	fuse_session_exit(transport->session);
	if (!__atomic_exchange_n(&transport->has_ended, 1, __ATOMIC_RELAXED))
		transport->ended(transport->userdata);
	pthread_mutex_lock(&transport->lock);
	reading_end_locked(thread);
	handling_end_locked(thread);
	if (transport->reader == thread)
		transport->reader = NULL;
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
	error = watchdog_init(&transport->watchdog, look_after, transport);
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

/* SPDX-License-Identifier: MIT */
/*
 * One thread at a time has the turn to read. If several slept in read, the kernel would
 * wake them in turn, each cold and on a sleeping processor. So the thread handles a
 * request with the turn in hand and then reads the next. Before a large request the
 * thread passes the turn on, since copying takes longer than to wake another thread. No
 * handler waits for a GPU; a handler that takes long all the same loses the turn to
 * another thread (transport_turn_look_after()).
 *
 * Before it sleeps, the thread with the turn looks for the next request for a moment
 * (base/look.h): the next line of a program follows soon after an answer. This needs two
 * processors only, since the moment is short. Under a hypervisor a processor without work
 * is given away, and it takes longer to have one back than most requests take.
 *
 * While requests keep coming before the last one is handled, all threads read, with or
 * without the turn: passing the turn at each request would wake a thread each time. The
 * kernel copies the bytes of a write in the read, so a large write with another request
 * behind it is enough for that. The thread with the turn looks for such requests, at the
 * cost of a system call; while all threads read, those that handle are counted instead.
 */
#include "transport_private.h"

#include "base/clock.h"
#include "base/def.h"

#include <linux/fuse.h>
#include <poll.h>
#include <utlist.h>

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

bool transport_turn_take(struct thread *thread)
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

void transport_turn_use(struct thread *thread, const struct fuse_buf *request)
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

static bool is_awaited(void *userdata)
{
	(void)userdata;
	return transport_is_awaited();
}

void transport_turn_look_ahead(const struct thread *thread)
{
	struct look *looks = &thread->transport->looks;

	if (thread->is_calm && look_has_cpus(READER_CPUS) && look_is_due(looks))
		look_for(looks, LOOK_NS, is_awaited, NULL);
}

void transport_turn_leave(struct thread *thread)
{
	struct transport *transport = thread->transport;

	reading_end_locked(thread);
	handling_end_locked(thread);
	if (transport->reader == thread)
		transport->reader = NULL;
}

bool transport_turn_look_after(void *userdata)
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

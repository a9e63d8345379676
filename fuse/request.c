/* SPDX-License-Identifier: MIT */
/*
 * A waiting request has two references: the operation's, until the operation returns, and
 * the answer's; the answer may come first. Only when the operation returns before the
 * answer is the request armed: put on the list, where interrupts of the kernel arrive.
 *
 * An interrupt only marks the request. A watcher then reads the signals of the waiting
 * thread (signal_pending.c), again every LOOK_MS since the kernel interrupts only once,
 * and cancels the wait when a signal ends the call. The answer leaves the list, and waits
 * for a look under way, unless a cancellation is the answer: so nothing is cancelled
 * after the answer. Each request gets exactly one reply.
 *
 * libfuse is not given the interrupts: it would look for each along the list of all
 * requests, with a lock held that each request needs. Ten thousand waiting threads that
 * are killed would stop the mount for seconds.
 *
 * Locks: request.lock, then requests.lock; none is held in a reply or in a call to the
 * broker.
 */
#include "request.h"

#include "base/clock.h"
#include "base/def.h"
#include "base/hash.h"
#include "base/user_errno.h"
#include "groups.h"
#include "signal_pending.h"
#include "transport.h"
#include "view.h"

#include <errno.h>
#include <linux/fuse.h>
#include <utlist.h>

#define LOOK_MS	      100
#define ENDING_MS     5000
#define FOR_KERNEL_MS 5000

#define WATCHED_USERS 4096

/* A read may be made again by another broker. */
static unsigned int request_changes(const struct request *request)
{
	return request->reply != request_reply_bytes;
}

unsigned int requests_n_changing(const struct requests *requests)
{
	return __atomic_load_n(&requests->n_changing, __ATOMIC_ACQUIRE);
}

static void request_unref(struct request *request)
{
	if (__atomic_sub_fetch(&request->n_refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	__atomic_sub_fetch(&request->view->requests.n_changing, request_changes(request),
			   __ATOMIC_RELEASE);
	pthread_mutex_destroy(&request->lock);
	free(request);
}

/* ---- interrupts ---- */

static uid_t uid_of(const struct request *request)
{
	return fuse_req_ctx(request->req)->uid;
}

/* Puts a waiting request first among those of its watcher. Under requests.lock. */
static void want(struct requests *requests, struct request *request)
{
	bool many = groups_are_many(requests->groups, uid_of(request));
	struct watcher *watcher = many ? &requests->patient : &requests->quick;

	request->watcher = watcher;
	request->round = watcher->round - 1;
	DL_PREPEND(watcher->wanted, request);
	pthread_cond_broadcast(&watcher->changed);
}

static void want_waiting(struct requests *requests, struct request *request)
{
	DL_DELETE(requests->waiting, request);
	want(requests, request);
}

/* An interrupt of a request that is not armed: it is not yet, or was answered. */
struct early {
	uint64_t unique; /* of the request */
	uint64_t own;	 /* of the interrupt */
	UT_hash_handle hh;
};

/* Has the kernel send the interrupt again, if the request has no answer yet. */
static void send_again(struct fuse_session *session, uint64_t own)
{
	const struct fuse_out_header again = {
		.len = sizeof(again),
		.error = -EAGAIN,
		.unique = own,
	};
	ssize_t written = write(fuse_session_fd(session), &again, sizeof(again));

	(void)written; /* the request may have its answer by now */
}

/* Under requests.lock, after each change. */
static void count_early(struct requests *requests)
{
	__atomic_store_n(&requests->n_early, HASH_COUNT(requests->early),
			 __ATOMIC_RELAXED);
}

/* Each other request lets go of an early interrupt, so they don't get ever more. */
static void let_go_of_oldest(struct requests *requests, struct fuse_session *session)
{
	struct early *oldest;

	if (!__atomic_load_n(&requests->n_early, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&requests->lock);
	oldest = requests->early;
	if (oldest)
		HASH_DEL(requests->early, oldest);
	count_early(requests);
	pthread_mutex_unlock(&requests->lock);
	if (oldest)
		send_again(session, oldest->own);
	free(oldest);
}

/* Under requests.lock. Returns: false: no memory. */
static bool note_early(struct requests *requests, uint64_t unique, uint64_t own)
{
	struct early *early = calloc(1, sizeof(*early));

	if (!early)
		return false;
	early->unique = unique;
	early->own = own;
	HASH_ADD(hh, requests->early, unique, sizeof(early->unique), early);
	count_early(requests);
	return true;
}

/* Under requests.lock. Returns: whether an interrupt of the request came early. */
static bool take_early(struct requests *requests, uint64_t unique)
{
	struct early *early;

	HASH_FIND(hh, requests->early, &unique, sizeof(unique), early);
	if (!early)
		return false;
	HASH_DEL(requests->early, early);
	count_early(requests);
	free(early);
	return true;
}

bool requests_interrupt(struct requests *requests, struct fuse_session *session,
			const struct fuse_buf *buffer)
{
	const struct fuse_in_header *header = buffer->mem;
	const struct fuse_interrupt_in *interrupt = (const void *)(header + 1);
	struct request *request;
	bool noted = true;
	uint64_t unique;

	if (header->opcode != FUSE_INTERRUPT) {
		let_go_of_oldest(requests, session);
		return false;
	}
	unique = transport_unique_of(interrupt->unique);
	pthread_mutex_lock(&requests->lock);
	HASH_FIND(hh, requests->armed, &unique, sizeof(unique), request);
	if (!request)
		noted = note_early(requests, unique, header->unique);
	else if (!request->watcher)
		want_waiting(requests, request);
	pthread_mutex_unlock(&requests->lock);
	if (!noted)
		send_again(session, header->unique);
	return true;
}

static void cancel_at_broker(struct request *request)
{
	broker_interrupt(request->view->broker, &request->wait);
}

/*
 * A thread of the kernel synchronizes a file for a program that has asked libaio. The end
 * of that program waits for the answer, and the kernel says nothing of that end.
 */
static bool waits_too_long(const struct request *request, const char *status)
{
	return status_is_of_kernel(status) &&
	       clock_ms() - request->armed_ms >= FOR_KERNEL_MS;
}

static bool has_signal(const struct request *request)
{
	_cleanup_free_ char *status = signal_status(fuse_req_ctx(request->req)->pid);

	if (!status)
		return true;
	groups_note_status(request->view->requests.groups, uid_of(request), status);
	return signal_ends_wait(status) || waits_too_long(request, status);
}

/* Cancels a wanted request if a signal or the end wants that. requests.lock is held, and
 * released meanwhile: thousands of threads may wait with a signal that ends no wait. */
static void look_at(struct requests *requests, struct request *request)
{
	bool ending = requests->ending;

	request->busy = true;
	__atomic_add_fetch(&request->n_refs, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&requests->lock);
	if (ending || has_signal(request)) {
		request->cancelled = true;
		request->cancel(request);
	}
	pthread_mutex_lock(&requests->lock);
	request->busy = false;
	pthread_cond_broadcast(&requests->idle);
	request_unref(request);
}

/* Where the user's last round is noted. Two users with one place have two in the next
 * round. */
static unsigned int *last_round(const struct watcher *watcher,
				const struct request *request)
{
	unsigned int key[] = { uid_of(request), watcher->round };

	return &watcher->turns[hash_of(key, sizeof(key)) % WATCHED_USERS];
}

/* Whether the user of the request has had a look in this round. */
static bool had_turn(const struct watcher *watcher, const struct request *request)
{
	return watcher->turns && !watcher->requests->ending &&
	       *last_round(watcher, request) == watcher->round;
}

/* The next request to look at in this round; NULL: there is none. Those that were looked
 * at are last. */
static struct request *next_wanted(const struct watcher *watcher)
{
	struct request *request;

	DL_FOREACH (watcher->wanted, request) {
		if (request->round != watcher->round && !request->cancelled &&
		    !had_turn(watcher, request))
			return request;
	}
	return NULL;
}

/* Looks at each wanted request once, or at one of each user. Under requests.lock. */
static void look(struct watcher *watcher)
{
	struct requests *requests = watcher->requests;
	struct request *request;

	watcher->round++;
	while ((request = next_wanted(watcher))) {
		DL_DELETE(watcher->wanted, request);
		if (watcher == &requests->quick &&
		    groups_are_many(requests->groups, uid_of(request))) {
			want(requests, request);
			continue;
		}
		request->round = watcher->round;
		DL_APPEND(watcher->wanted, request);
		if (watcher->turns)
			*last_round(watcher, request) = watcher->round;
		look_at(requests, request);
	}
}

static void wait_a_moment(struct watcher *watcher)
{
	clock_cond_wait(&watcher->changed, &watcher->requests->lock,
			clock_ms() + LOOK_MS);
}

static void end_all(struct watcher *watcher)
{
	struct requests *requests = watcher->requests;

	for (int waited = 0; waited < ENDING_MS; waited += LOOK_MS) {
		while (requests->waiting)
			want_waiting(requests, requests->waiting);
		look(watcher);
		if (!requests->waiting && !watcher->wanted)
			break;
		wait_a_moment(watcher);
	}
}

static void *watch(void *data)
{
	struct watcher *watcher = data;
	struct requests *requests = watcher->requests;

	pthread_mutex_lock(&requests->lock);
	while (!requests->ending) {
		look(watcher);
		if (requests->ending)
			break;
		if (watcher->wanted)
			wait_a_moment(watcher);
		else
			pthread_cond_wait(&watcher->changed, &requests->lock);
	}
	end_all(watcher);
	pthread_mutex_unlock(&requests->lock);
	return NULL;
}

static int watcher_init(struct watcher *watcher, struct requests *requests)
{
	watcher->requests = requests;
	clock_cond_init(&watcher->changed);
	return -pthread_create(&watcher->thread, NULL, watch, watcher);
}

/* Under requests.lock. */
static void wake_watchers(struct requests *requests)
{
	pthread_cond_broadcast(&requests->quick.changed);
	pthread_cond_broadcast(&requests->patient.changed);
}

static void begin_end(struct requests *requests)
{
	pthread_mutex_lock(&requests->lock);
	requests->ending = true;
	wake_watchers(requests);
	pthread_mutex_unlock(&requests->lock);
}

int requests_init(struct requests *requests, struct groups_seen *groups)
{
	int r;

	*requests =
		(struct requests){ .groups = groups, .lock = PTHREAD_MUTEX_INITIALIZER };
	pthread_cond_init(&requests->idle, NULL);
	requests->patient.turns = calloc(WATCHED_USERS, sizeof(*requests->patient.turns));
	r = requests->patient.turns ? watcher_init(&requests->quick, requests) : -ENOMEM;
	if (r == 0) {
		r = watcher_init(&requests->patient, requests);
		if (r < 0) {
			begin_end(requests);
			pthread_join(requests->quick.thread, NULL);
		}
	}
	if (r < 0)
		free(requests->patient.turns);
	return r;
}

int requests_deinit(struct requests *requests)
{
	bool left;

	begin_end(requests);
	pthread_join(requests->quick.thread, NULL);
	pthread_join(requests->patient.thread, NULL);
	pthread_mutex_lock(&requests->lock);
	left = requests->waiting || requests->quick.wanted || requests->patient.wanted;
	pthread_mutex_unlock(&requests->lock);
	free(requests->patient.turns);
	while (requests->early)
		(void)take_early(requests, requests->early->unique);
	return left ? -ETIMEDOUT : 0;
}

/* ---- a request ---- */

/* Leaves the list; on return nobody cancels the request any more. */
static void disarm(struct request *request)
{
	struct requests *requests = &request->view->requests;

	pthread_mutex_lock(&requests->lock);
	HASH_DEL(requests->armed, request);
	while (request->busy && !pthread_equal(pthread_self(), request->watcher->thread))
		pthread_cond_wait(&requests->idle, &requests->lock);
	if (request->watcher)
		DL_DELETE(request->watcher->wanted, request);
	else
		DL_DELETE(requests->waiting, request);
	if (requests->ending)
		wake_watchers(requests);
	pthread_mutex_unlock(&requests->lock);
}

static void on_done(struct completion *wait, int error, const void *bytes, size_t length)
{
	struct request *request = container_of(wait, struct request, wait);
	bool armed;

	pthread_mutex_lock(&request->lock);
	__atomic_store_n(&request->answered, true, __ATOMIC_RELEASE);
	armed = request->armed;
	pthread_mutex_unlock(&request->lock);
	if (armed)
		disarm(request);
	request->reply(request, error, bytes, length);
	request_unref(request);
}

struct request *request_new(struct view *view, fuse_req_t req, request_reply *reply)
{
	struct request *request = calloc(1, sizeof(*request));

	if (!request) {
		reply_error(req, -ENOMEM);
		return NULL;
	}
	request->wait.done = on_done;
	request->view = view;
	request->req = req;
	request->unique = transport_unique();
	request->reply = reply;
	request->cancel = cancel_at_broker;
	request->n_refs = 2;
	pthread_mutex_init(&request->lock, NULL);
	__atomic_add_fetch(&view->requests.n_changing, request_changes(request),
			   __ATOMIC_RELAXED);
	return request;
}

/* Whether this thread need not look for the answer, or has something else to do. */
static bool request_is_over(void *userdata)
{
	const struct request *request = userdata;

	return __atomic_load_n(&request->answered, __ATOMIC_ACQUIRE) ||
	       transport_is_awaited();
}

void request_wait(struct request *request)
{
	struct requests *requests = &request->view->requests;

	pthread_mutex_lock(&request->lock);
	if (!request->answered) {
		request->armed = true;
		request->armed_ms = clock_ms();
		pthread_mutex_lock(&requests->lock);
		DL_APPEND(requests->waiting, request);
		HASH_ADD(hh, requests->armed, unique, sizeof(request->unique), request);
		/* The kernel may never say that a thread that closes is ending. */
		if (take_early(requests, request->unique) || request->closes)
			want_waiting(requests, request);
		pthread_mutex_unlock(&requests->lock);
	}
	pthread_mutex_unlock(&request->lock);
	broker_look(request_is_over, request);
	request_unref(request);
}

/* ---- answers ---- */

void reply_error(fuse_req_t req, int error)
{
	fuse_reply_err(req, user_errno(-error));
}

void request_reply_error(struct request *request, int error, const void *bytes,
			 size_t length)
{
	(void)bytes;
	(void)length;
	reply_error(request->req, error);
}

void request_reply_bytes(struct request *request, int error, const void *bytes,
			 size_t length)
{
	if (error)
		reply_error(request->req, error);
	else
		fuse_reply_buf(request->req, bytes, length);
}

void request_reply_written(struct request *request, int error, const void *bytes,
			   size_t length)
{
	(void)bytes;
	if (error)
		reply_error(request->req, error);
	else
		fuse_reply_write(request->req, length);
}

/* ---- callers ---- */

struct caller caller_of(fuse_req_t req)
{
	const struct fuse_ctx *context = fuse_req_ctx(req);

	return (struct caller){
		.uid = context->uid,
		.gid = context->gid,
		.pid = context->pid,
	};
}

int identity_init(struct identity *identity, fuse_req_t req)
{
	int n;

	*identity = (struct identity){ .caller = caller_of(req) };
	if (identity->caller.uid == 0)
		return 0;
	n = groups_of(&view_of(req)->groups, identity->caller.pid, identity->caller.uid,
		      &identity->groups);
	if (n < 0)
		return n;
	identity->caller.n_groups = (unsigned int)n;
	identity->caller.groups = identity->groups;
	return 0;
}

void identity_deinit(struct identity *identity)
{
	free(identity->groups);
	*identity = (struct identity){ 0 };
}

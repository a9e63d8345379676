/* SPDX-License-Identifier: MIT */
/*
 * A waiting request has two references: the operation's, until the operation returns, and
 * the answer's; the answer may come first. Only when the operation returns before the
 * answer is the request armed: put on the list, where interrupts of the kernel arrive.
 *
 * libfuse calls back for an interrupt with its own lock of the request held, in a thread
 * that serves requests: the callback only marks the request. The watcher then reads the
 * signals of the waiting thread (signal_pending.c), again every LOOK_MS since the kernel
 * interrupts only once, and cancels the wait when a signal ends the call. The answer
 * first removes the callback, which waits for a call under way, and then leaves the list,
 * which waits for a look under way, unless a cancellation is the answer: so nothing is
 * cancelled after the answer. Each request gets exactly one reply.
 *
 * Locks: request.lock, then libfuse's own, then requests.lock; none is held in a reply or
 * in a call to the broker.
 */
#include "request.h"

#include "base/clock.h"
#include "base/def.h"
#include "signal_pending.h"
#include "transport.h"
#include "view.h"

#include <errno.h>
#include <utlist.h>

#define LOOK_MS	  100
#define ENDING_MS 5000

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

/* Puts a request first among the wanted. Under requests.lock. */
static void want(struct requests *requests, struct request *request)
{
	request->wanted = true;
	requests->n_wanted++;
	DL_DELETE(requests->waiting, request);
	DL_PREPEND(requests->wanted, request);
}

/* Called by libfuse with the lock of the request held. */
static void on_interrupt(fuse_req_t req, void *data)
{
	struct request *request = data;
	struct requests *requests = &request->view->requests;

	(void)req;
	pthread_mutex_lock(&requests->lock);
	if (!request->wanted) {
		want(requests, request);
		pthread_cond_broadcast(&requests->changed);
	}
	pthread_mutex_unlock(&requests->lock);
}

static void cancel_at_broker(struct request *request)
{
	broker_interrupt(request->view->broker, &request->wait);
}

/* Cancels a wanted request if a signal or the end wants that. requests.lock is held, and
 * released meanwhile: thousands of threads may wait with a signal that ends no wait. */
static void look_at(struct requests *requests, struct request *request)
{
	bool ending = requests->ending;

	request->busy = true;
	__atomic_add_fetch(&request->n_refs, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&requests->lock);
	if (ending || signal_pending(fuse_req_ctx(request->req)->pid)) {
		request->cancelled = true;
		request->cancel(request);
	}
	pthread_mutex_lock(&requests->lock);
	request->busy = false;
	pthread_cond_broadcast(&requests->idle);
	request_unref(request);
}

/* Looks at each wanted request once. Under requests.lock. */
static void look(struct requests *requests)
{
	struct request *request;

	for (unsigned int n = requests->n_wanted; n > 0 && requests->wanted; n--) {
		request = requests->wanted;
		DL_DELETE(requests->wanted, request);
		DL_APPEND(requests->wanted, request);
		if (!request->cancelled)
			look_at(requests, request);
	}
}

static void wait_a_moment(struct requests *requests)
{
	clock_cond_wait(&requests->changed, &requests->lock, clock_ms() + LOOK_MS);
}

static void end_all(struct requests *requests)
{
	for (int waited = 0; waited < ENDING_MS; waited += LOOK_MS) {
		while (requests->waiting)
			want(requests, requests->waiting);
		look(requests);
		if (!requests->waiting && !requests->wanted)
			break;
		wait_a_moment(requests);
	}
}

static void *watch(void *data)
{
	struct requests *requests = data;

	pthread_mutex_lock(&requests->lock);
	while (!requests->ending) {
		look(requests);
		if (requests->ending)
			break;
		if (requests->n_wanted > 0)
			wait_a_moment(requests);
		else
			pthread_cond_wait(&requests->changed, &requests->lock);
	}
	end_all(requests);
	pthread_mutex_unlock(&requests->lock);
	return NULL;
}

int requests_init(struct requests *requests)
{
	*requests = (struct requests){ .lock = PTHREAD_MUTEX_INITIALIZER };
	clock_cond_init(&requests->changed);
	pthread_cond_init(&requests->idle, NULL);
	return -pthread_create(&requests->watcher, NULL, watch, requests);
}

int requests_deinit(struct requests *requests)
{
	bool left;

	pthread_mutex_lock(&requests->lock);
	requests->ending = true;
	pthread_cond_broadcast(&requests->changed);
	pthread_mutex_unlock(&requests->lock);
	pthread_join(requests->watcher, NULL);
	pthread_mutex_lock(&requests->lock);
	left = requests->waiting || requests->wanted;
	pthread_mutex_unlock(&requests->lock);
	return left ? -ETIMEDOUT : 0;
}

/* ---- a request ---- */

/* Leaves the list; on return nobody cancels the request any more. */
static void disarm(struct request *request)
{
	struct requests *requests = &request->view->requests;

	fuse_req_interrupt_func(request->req, NULL, NULL);
	pthread_mutex_lock(&requests->lock);
	while (request->busy && !pthread_equal(pthread_self(), requests->watcher))
		pthread_cond_wait(&requests->idle, &requests->lock);
	if (request->wanted)
		DL_DELETE(requests->wanted, request);
	else
		DL_DELETE(requests->waiting, request);
	requests->n_wanted -= request->wanted;
	if (requests->ending)
		pthread_cond_broadcast(&requests->changed);
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
		pthread_mutex_lock(&requests->lock);
		DL_APPEND(requests->waiting, request);
		pthread_mutex_unlock(&requests->lock);
		fuse_req_interrupt_func(request->req, on_interrupt, request);
		if (request->closes && signal_pending(fuse_req_ctx(request->req)->pid))
			on_interrupt(request->req, request);
	}
	pthread_mutex_unlock(&request->lock);
	broker_look(request_is_over, request);
	request_unref(request);
}

/* ---- answers ---- */

void reply_error(fuse_req_t req, int error)
{
	fuse_reply_err(req, -error);
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
	n = groups_read(identity->caller.pid, &identity->groups);
	if (n < 0)
		return n;
	groups_note(&view_of(req)->groups, identity->caller.uid, (unsigned int)n);
	identity->caller.n_groups = (unsigned int)n;
	identity->caller.groups = identity->groups;
	return 0;
}

void identity_deinit(struct identity *identity)
{
	free(identity->groups);
	*identity = (struct identity){ 0 };
}

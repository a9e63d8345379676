/* SPDX-License-Identifier: MIT */
/*
 * events_pipe: each change as it comes. A read that finds nothing waits in the queue of
 * the file; the broker's reader wakes the file (waker.h) when there is something, and the
 * poll handle is notified at the same time.
 *
 * The lock of the file guards buffer, queue and poll handle. Replies are sent without the
 * lock, through the done of each wait.
 */
#include "base/def.h"
#include "file.h"
#include "view.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <utlist.h>

#define BUFFER_SIZE 8192

struct pipe_file {
	struct file file;
	struct waker waker;
	struct event_reader *reader;
	struct caller caller; /* the opener of the file */
	pthread_mutex_t lock;
	char bytes[BUFFER_SIZE];      /* lock: taken from the reader, not yet read */
	size_t begin, end;	      /* lock */
	struct request *queue;	      /* lock: oldest first */
	struct fuse_pollhandle *poll; /* lock */
};

/* Is there something to read? Called with the lock. */
static bool fill(struct pipe_file *pipe)
{
	if (pipe->begin < pipe->end)
		return true;
	pipe->begin = 0;
	pipe->end = event_reader_take(pipe->reader, pipe->bytes, sizeof(pipe->bytes));
	return pipe->end > 0;
}

/* Moves bytes from the buffer to a reader. Called with the lock. */
static size_t take(struct pipe_file *pipe, char *bytes, size_t size)
{
	size_t length = MIN(size, pipe->end - pipe->begin);

	memcpy(bytes, pipe->bytes + pipe->begin, length);
	pipe->begin += length;
	return length;
}

/* Answers the oldest reader in the queue if there are bytes. */
static bool serve(struct pipe_file *pipe)
{
	char bytes[BUFFER_SIZE];
	struct request *request = NULL;
	size_t length = 0;

	pthread_mutex_lock(&pipe->lock);
	if (pipe->queue && fill(pipe)) {
		request = pipe->queue;
		LL_DELETE2(pipe->queue, request, queue_next);
		length = take(pipe, bytes, MIN(request->size, sizeof(bytes)));
	}
	pthread_mutex_unlock(&pipe->lock);
	if (!request)
		return false;
	request->wait.done(&request->wait, 0, bytes, length);
	return true;
}

/* Readers of a file that are answered before the next user's turn. */
#define IN_TURN 64

/* Answers readers and pollers. */
static void serve_some(struct waker *waker)
{
	struct pipe_file *pipe = container_of(waker, struct pipe_file, waker);
	struct fuse_pollhandle *handle;
	unsigned int n_left = IN_TURN;

	while (n_left > 0 && serve(pipe))
		n_left--;
	if (n_left == 0)
		waker_wake(waker);
	pthread_mutex_lock(&pipe->lock);
	handle = take_ptr(pipe->poll);
	pthread_mutex_unlock(&pipe->lock);
	if (!handle)
		return;
	fuse_lowlevel_notify_poll(handle);
	fuse_pollhandle_destroy(handle);
}

/* ---- descriptors ---- */

static void cancel_read(struct request *request)
{
	struct pipe_file *pipe = request->context;
	struct request *found;

	pthread_mutex_lock(&pipe->lock);
	LL_FOREACH2(pipe->queue, found, queue_next)
	{
		if (found == request)
			break;
	}
	if (found)
		LL_DELETE2(pipe->queue, request, queue_next);
	pthread_mutex_unlock(&pipe->lock);
	if (found)
		request->wait.done(&request->wait, -EINTR, NULL, 0);
}

/* A read that will wait in the queue. Called with the lock. */
static struct request *wait_in_queue(struct pipe_file *pipe, fuse_req_t req, size_t size)
{
	struct request *request = request_new(pipe->file.view, req, request_reply_bytes);

	if (!request)
		return NULL;
	request->cancel = cancel_read;
	request->context = pipe;
	request->size = size;
	LL_APPEND2(pipe->queue, request, queue_next);
	return request;
}

static void pipe_read(struct file *file, fuse_req_t req, size_t size, off_t offset,
		      const struct fuse_file_info *info)
{
	struct pipe_file *pipe = container_of(file, struct pipe_file, file);
	struct request *request = NULL;
	char bytes[BUFFER_SIZE];
	size_t length = 0;
	bool wait = !(info->flags & O_NONBLOCK);

	(void)offset;
	pthread_mutex_lock(&pipe->lock);
	if (!pipe->queue && fill(pipe))
		length = take(pipe, bytes, MIN(size, sizeof(bytes)));
	else if (wait)
		request = wait_in_queue(pipe, req, size);
	pthread_mutex_unlock(&pipe->lock);
	if (request)
		request_wait(request);
	else if (length > 0)
		fuse_reply_buf(req, bytes, length);
	else if (!wait)
		reply_error(req, -EAGAIN);
}

static void pipe_poll(struct file *file, fuse_req_t req, struct fuse_pollhandle *handle)
{
	struct pipe_file *pipe = container_of(file, struct pipe_file, file);
	struct fuse_pollhandle *old = NULL;
	bool ready;

	pthread_mutex_lock(&pipe->lock);
	if (handle) {
		old = pipe->poll;
		pipe->poll = handle;
	}
	ready = fill(pipe);
	pthread_mutex_unlock(&pipe->lock);
	if (old)
		fuse_pollhandle_destroy(old);
	fuse_reply_poll(req, ready ? POLLIN | POLLRDNORM : 0);
}

static void pipe_free(struct file *file, fuse_req_t req)
{
	struct pipe_file *pipe = container_of(file, struct pipe_file, file);

	(void)req;
	waker_leave(&pipe->waker);
	event_reader_free(pipe->reader);
	broker_reader_give(pipe->file.view->broker, &pipe->caller);
	if (pipe->poll)
		fuse_pollhandle_destroy(pipe->poll);
	pthread_mutex_destroy(&pipe->lock);
}

static const struct file_type pipe_type = {
	.read = pipe_read,
	.poll = pipe_poll,
	.free = pipe_free,
};

void file_events_open(struct view *view, fuse_req_t req, const struct node *node,
		      struct fuse_file_info *info)
{
	const struct caller caller = caller_of(req);
	struct pipe_file *pipe;
	int r;

	(void)node;
	if (opened_for_writing(info)) {
		reply_error(req, -EACCES);
		return;
	}
	r = broker_reader_take(view->broker, &caller);
	if (r < 0) {
		reply_error(req, r);
		return;
	}
	pipe = file_new(view, req, &pipe_type, sizeof(*pipe));
	if (!pipe) {
		broker_reader_give(view->broker, &caller);
		reply_error(req, -ENOMEM);
		return;
	}
	pipe->caller = caller;
	pthread_mutex_init(&pipe->lock, NULL);
	waker_init(&pipe->waker, &view->wakers, caller.uid, serve_some);
	pipe->reader = event_reader_new(view->broker, waker_wake, &pipe->waker);
	if (!pipe->reader) {
		file_free(&pipe->file, req);
		reply_error(req, -ENOMEM);
		return;
	}
	info->direct_io = 1;
	info->nonseekable = 1;
	info->noflush = 1;
	file_reply(req, &pipe->file, info);
}

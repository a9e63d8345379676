/* SPDX-License-Identifier: MIT */
/*
 * events_pipe: each change as it comes. A read that finds nothing waits in the file's own
 * queue; the broker's reader says that there is something, and poll is told at the same
 * time.
 *
 * The broker may say so in the midst of a change, so that only puts the file on a list; a
 * thread of its own answers. A file that is closed first leaves the list, or waits until
 * the thread is done with it.
 *
 * Locks: the file's, over its buffer, queue and poll handle; pipes.lock, over the list,
 * under which nothing else is locked. Replies leave without either, by way of the done of
 * each wait.
 */
#include "base/def.h"
#include "file.h"
#include "view.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#define BUFFER_SIZE 8192

struct pipe_file {
	struct file file;
	struct event_reader *reader;
	struct pipe_file *next; /* pipes.lock, as the next two */
	bool woken;		/* it is on the list */
	bool closing;		/* it will not be there again */
	pthread_mutex_t lock;
	char bytes[BUFFER_SIZE];      /* lock: taken from the reader, not yet read */
	size_t begin, end;	      /* lock */
	struct request *queue;	      /* lock: chained by context, oldest first */
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

/* Moves what is there to a reader. Called with the lock. */
static size_t take(struct pipe_file *pipe, char *bytes, size_t size)
{
	size_t length = MIN(size, pipe->end - pipe->begin);

	memcpy(bytes, pipe->bytes + pipe->begin, length);
	pipe->begin += length;
	return length;
}

static struct request *queue_pop(struct pipe_file *pipe)
{
	struct request *request = pipe->queue;

	pipe->queue = request->context;
	return request;
}

static void queue_push(struct pipe_file *pipe, struct request *request)
{
	struct request **last = &pipe->queue;

	while (*last)
		last = (struct request **)&(*last)->context;
	request->context = NULL;
	*last = request;
}

static bool queue_remove(struct pipe_file *pipe, struct request *request)
{
	struct request **at = &pipe->queue;

	while (*at && *at != request)
		at = (struct request **)&(*at)->context;
	if (!*at)
		return false;
	*at = request->context;
	return true;
}

/* Answers the oldest reader in the queue if there is something for it. */
static bool serve(struct pipe_file *pipe)
{
	char bytes[BUFFER_SIZE];
	struct request *request = NULL;
	size_t length = 0;

	pthread_mutex_lock(&pipe->lock);
	if (pipe->queue && fill(pipe)) {
		request = queue_pop(pipe);
		length = take(pipe, bytes, MIN(request->size, sizeof(bytes)));
	}
	pthread_mutex_unlock(&pipe->lock);
	if (!request)
		return false;
	request->wait.done(&request->wait, 0, bytes, length);
	return true;
}

/* Answers who reads and who polls. */
static void serve_all(struct pipe_file *pipe)
{
	struct fuse_pollhandle *handle;

	while (serve(pipe))
		;
	pthread_mutex_lock(&pipe->lock);
	handle = take_ptr(pipe->poll);
	pthread_mutex_unlock(&pipe->lock);
	if (!handle)
		return;
	fuse_lowlevel_notify_poll(handle);
	fuse_pollhandle_destroy(handle);
}

/* ---- the list of those with something to read ---- */

static void on_wake(void *data)
{
	struct pipe_file *pipe = data;
	struct pipes *pipes = &pipe->file.view->pipes;

	pthread_mutex_lock(&pipes->lock);
	if (!pipe->woken && !pipe->closing) {
		pipe->woken = true;
		pipe->next = pipes->woken;
		pipes->woken = pipe;
		pthread_cond_broadcast(&pipes->changed);
	}
	pthread_mutex_unlock(&pipes->lock);
}

static void *run(void *data)
{
	struct pipes *pipes = data;
	struct pipe_file *pipe;

	pthread_mutex_lock(&pipes->lock);
	while (!pipes->ending) {
		pipe = pipes->woken;
		if (!pipe) {
			pthread_cond_wait(&pipes->changed, &pipes->lock);
			continue;
		}
		pipes->woken = pipe->next;
		pipes->served = pipe;
		pipe->woken = false;
		pthread_mutex_unlock(&pipes->lock);
		serve_all(pipe);
		pthread_mutex_lock(&pipes->lock);
		pipes->served = NULL;
		pthread_cond_broadcast(&pipes->changed);
	}
	pthread_mutex_unlock(&pipes->lock);
	return NULL;
}

/* On return the thread has nothing to do with the file, now or later. */
static void leave(struct pipes *pipes, struct pipe_file *pipe)
{
	struct pipe_file **at;

	pthread_mutex_lock(&pipes->lock);
	pipe->closing = true;
	for (at = &pipes->woken; *at && *at != pipe; at = &(*at)->next)
		;
	if (*at)
		*at = pipe->next;
	while (pipes->served == pipe)
		pthread_cond_wait(&pipes->changed, &pipes->lock);
	pthread_mutex_unlock(&pipes->lock);
}

int pipes_init(struct pipes *pipes)
{
	*pipes = (struct pipes){
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.changed = PTHREAD_COND_INITIALIZER,
	};
	return -pthread_create(&pipes->thread, NULL, run, pipes);
}

void pipes_deinit(struct pipes *pipes)
{
	pthread_mutex_lock(&pipes->lock);
	pipes->ending = true;
	pthread_cond_broadcast(&pipes->changed);
	pthread_mutex_unlock(&pipes->lock);
	pthread_join(pipes->thread, NULL);
}

/* ---- descriptors ---- */

static void cancel_read(struct request *request)
{
	struct pipe_file *pipe = (struct pipe_file *)file_of(&request->info);
	bool removed;

	pthread_mutex_lock(&pipe->lock);
	removed = queue_remove(pipe, request);
	pthread_mutex_unlock(&pipe->lock);
	if (removed)
		request->wait.done(&request->wait, -EINTR, NULL, 0);
}

/* A read that will wait in the queue. Called with the lock. */
static struct request *wait_in_queue(struct pipe_file *pipe, fuse_req_t req, size_t size)
{
	struct request *request = request_new(pipe->file.view, req, request_reply_bytes);

	if (!request)
		return NULL;
	request->cancel = cancel_read;
	request->info.fh = (uintptr_t)&pipe->file;
	request->size = size;
	queue_push(pipe, request);
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
	leave(&file->view->pipes, pipe);
	event_reader_free(pipe->reader);
	if (pipe->poll)
		fuse_pollhandle_destroy(pipe->poll);
	pthread_mutex_destroy(&pipe->lock);
}

static const struct file_type pipe_type = {
	.read = pipe_read,
	.poll = pipe_poll,
	.free = pipe_free,
};

void pipe_open(struct view *view, fuse_req_t req, const struct node *node,
	       struct fuse_file_info *info)
{
	struct pipe_file *pipe;

	(void)node;
	if (opened_for_writing(info)) {
		reply_error(req, -EACCES);
		return;
	}
	pipe = file_new(view, &pipe_type, sizeof(*pipe));
	if (!pipe) {
		reply_error(req, -ENOMEM);
		return;
	}
	pthread_mutex_init(&pipe->lock, NULL);
	pipe->reader = event_reader_new(view->broker, on_wake, pipe);
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

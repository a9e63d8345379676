/* SPDX-License-Identifier: MIT */
#include "process/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

#include "base/def.h"
#include "base/text.h"
#include "record/records.h"

struct pipe_end {
	struct output *output;
	int fd;
	struct pipe_end *next;
};

struct output {
	struct outputs *outputs;
	pthread_mutex_t lock;
	struct records *records;
	uint32_t uid;
	uint32_t record; /* 0: none */
	/* The record itself; without records on the heap. NULL before the first byte. */
	struct output_record *kept;
	struct pipe_end *pipes;

	/*
	 * Only one thread drains at a time. A process may write without end, so readers
	 * of the output go before the background thread.
	 */
	bool draining;
	unsigned int n_waiting; /* readers */
	pthread_cond_t drained;
};

#define CHUNK 4096 /* bytes read from a pipe at a time */

/* A chunk never overwrites bytes that are shown: a death may come in the middle. */
_Static_assert(RECORD_OUTPUT_BYTES >= OUTPUT_KEPT + CHUNK, "a chunk has room of its own");

/* Without memory nothing is kept. */
static void output_make(struct output *output)
{
	struct output_record *kept = calloc(1, sizeof(*kept));

	if (!kept || records_take(output->records, RECORD_OUTPUT, &output->record) < 0) {
		free(kept);
		return;
	}
	kept->owner = output->uid;
	output->kept = kept;
	if (!output->record)
		return;
	records_save(output->records, RECORD_OUTPUT, output->record, kept);
	output->kept = records_place(output->records, RECORD_OUTPUT, output->record);
	free(kept);
}

static void output_add(struct output *output, const char *bytes, size_t length)
{
	struct output_record *kept;

	if (!output->kept)
		output_make(output);
	kept = output->kept;
	if (!kept)
		return;
	/* At an upgrade the records don't change while the next broker copies them. */
	records_begin(output->records);
	for (size_t i = 0; i < length;) {
		size_t at = kept->n_written % RECORD_OUTPUT_BYTES;
		size_t n = MIN(length - i, RECORD_OUTPUT_BYTES - at);

		memcpy(kept->bytes + at, bytes + i, n);
		__atomic_store_n(&kept->n_written, kept->n_written + n, __ATOMIC_RELEASE);
		i += n;
	}
	records_end(output->records);
}

static void drain_begin(struct output *output, bool looks)
{
	pthread_mutex_lock(&output->lock);
	output->n_waiting += looks;
	while (output->draining || (!looks && output->n_waiting))
		pthread_cond_wait(&output->drained, &output->lock);
	output->n_waiting -= looks;
	output->draining = true;
	pthread_mutex_unlock(&output->lock);
}

static void drain_end(struct output *output)
{
	pthread_mutex_lock(&output->lock);
	output->draining = false;
	pthread_cond_broadcast(&output->drained);
	pthread_mutex_unlock(&output->lock);
}

/*
 * Reads the bytes in a pipe, at most a pipe's capacity. Between drain_begin() and
 * drain_end(), without the lock. Returns: false at end of file.
 */
static bool pipe_drain(struct pipe_end *pipe)
{
	size_t left = OUTPUT_KEPT;
	char bytes[CHUNK];
	ssize_t n;

	do {
		n = read(pipe->fd, bytes, sizeof(bytes));
		if (n <= 0)
			return n < 0 && (errno == EAGAIN || errno == EINTR);
		pthread_mutex_lock(&pipe->output->lock);
		output_add(pipe->output, bytes, (size_t)n);
		pthread_mutex_unlock(&pipe->output->lock);
		left -= MIN((size_t)n, left);
	} while (left);
	return true;
}

static void output_remove(struct output *output, struct pipe_end *pipe)
{
	struct pipe_end **channel = &output->pipes;

	while (*channel != pipe)
		channel = &(*channel)->next;
	*channel = pipe->next;
	/* Closing is not enough: a process being started may hold a copy. */
	(void)epoll_ctl(output->outputs->epoll, EPOLL_CTL_DEL, pipe->fd, NULL);
	close(pipe->fd);
	free(pipe);
}

/* Only this thread removes pipes, so no event points to a freed pipe. */
static void *outputs_run(void *userdata)
{
	struct outputs *outputs = userdata;
	struct epoll_event event;

	for (;;) {
		struct pipe_end *pipe;
		struct output *output;

		if (epoll_wait(outputs->epoll, &event, 1, -1) != 1)
			continue;
		pipe = event.data.ptr;
		if (!pipe)
			return NULL;
		output = pipe->output;
		drain_begin(output, false);
		if (!pipe_drain(pipe)) {
			pthread_mutex_lock(&output->lock);
			output_remove(output, pipe);
			pthread_mutex_unlock(&output->lock);
		}
		drain_end(output);
	}
}

int outputs_init(struct outputs *outputs)
{
	struct epoll_event event = { .events = EPOLLIN };
	sigset_t all, before;
	int r;

	outputs->epoll = epoll_create1(EPOLL_CLOEXEC);
	outputs->stop = eventfd(0, EFD_CLOEXEC);
	if (outputs->epoll < 0 || outputs->stop < 0 ||
	    epoll_ctl(outputs->epoll, EPOLL_CTL_ADD, outputs->stop, &event) < 0)
		return -errno;
	/* Signals are handled by the program's own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&outputs->thread, NULL, outputs_run, outputs);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	outputs->runs = r == 0;
	return -r;
}

void outputs_deinit(struct outputs *outputs)
{
	if (outputs->runs) {
		eventfd_write(outputs->stop, 1);
		pthread_join(outputs->thread, NULL);
	}
	outputs->runs = false;
	closep(&outputs->epoll);
	closep(&outputs->stop);
}

struct output *output_new(struct outputs *outputs, struct records *records, uint32_t uid)
{
	struct output *output = calloc(1, sizeof(*output));

	if (!output)
		return NULL;
	output->outputs = outputs;
	output->records = records;
	output->uid = uid;
	pthread_mutex_init(&output->lock, NULL);
	pthread_cond_init(&output->drained, NULL);
	return output;
}

struct output *output_restore(struct outputs *outputs, struct records *records,
			      uint32_t index)
{
	struct output_record *kept = records_place(records, RECORD_OUTPUT, index);
	struct output *output = output_new(outputs, records, kept->owner);

	if (!output)
		return NULL;
	output->record = index;
	output->kept = kept;
	return output;
}

struct output *output_free(struct output *output)
{
	if (!output)
		return NULL;
	while (output->pipes)
		output_remove(output, output->pipes);
	pthread_cond_destroy(&output->drained);
	pthread_mutex_destroy(&output->lock);
	if (output->record)
		records_drop(output->records, RECORD_OUTPUT, output->record);
	else
		free(output->kept);
	free(output);
	return NULL;
}

int output_open(struct output *output)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct pipe_end *pipe = calloc(1, sizeof(*pipe));
	int fds[2], r;

	if (!pipe)
		return -ENOMEM;
	if (pipe2(fds, O_CLOEXEC) < 0) {
		free(pipe);
		return -errno;
	}
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	pipe->output = output;
	pipe->fd = fds[0];
	event.data.ptr = pipe;
	pthread_mutex_lock(&output->lock);
	LL_PREPEND(output->pipes, pipe);
	r = epoll_ctl(output->outputs->epoll, EPOLL_CTL_ADD, pipe->fd, &event) < 0
		    ? -errno
		    : 0;
	if (r < 0)
		output_remove(output, pipe);
	pthread_mutex_unlock(&output->lock);
	if (r < 0) {
		close(fds[1]);
		return r;
	}
	return fds[1];
}

bool output_is_open(struct output *output)
{
	bool open;

	pthread_mutex_lock(&output->lock);
	open = output->pipes || output->draining || output->n_waiting;
	pthread_mutex_unlock(&output->lock);
	return open;
}

bool output_is_empty(struct output *output)
{
	bool empty;

	pthread_mutex_lock(&output->lock);
	empty = !output->kept || output->kept->n_written == 0;
	pthread_mutex_unlock(&output->lock);
	return empty;
}

/* Skips the rest of a line whose beginning was dropped. */
static uint64_t output_start(const struct output_record *kept)
{
	uint64_t at;

	if (kept->n_written <= OUTPUT_KEPT)
		return 0;
	for (at = kept->n_written - OUTPUT_KEPT; at < kept->n_written; at++)
		if (kept->bytes[at % RECORD_OUTPUT_BYTES] == '\n')
			return at + 1;
	return kept->n_written - OUTPUT_KEPT;
}

void output_drain(struct output *output)
{
	struct pipe_end *pipe;

	drain_begin(output, true);
	pthread_mutex_lock(&output->lock);
	pipe = output->pipes;
	pthread_mutex_unlock(&output->lock);
	for (; pipe; pipe = pipe->next)
		(void)pipe_drain(pipe);
	drain_end(output);
}

void output_show(struct output *output, struct text *text)
{
	const struct output_record *kept;
	uint64_t at;

	pthread_mutex_lock(&output->lock);
	kept = output->kept;
	at = kept ? output_start(kept) : 0;
	while (kept && at < kept->n_written) {
		size_t place = at % RECORD_OUTPUT_BYTES;
		size_t n = MIN(kept->n_written - at, RECORD_OUTPUT_BYTES - place);

		text_add(text, kept->bytes + place, n);
		at += n;
	}
	pthread_mutex_unlock(&output->lock);
}

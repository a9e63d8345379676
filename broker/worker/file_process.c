/* SPDX-License-Identifier: MIT */
/*
 * The process of files: opens the files of its owner, so that no worker has to.
 *
 * Linux ends no thread that waits for a file system which has taken a request and does
 * not answer. So this process holds nothing that anybody could miss: no driver, no
 * memory of a GPU, only the memory of lanes, which it shares with a worker. The broker
 * gives a process up that hangs, and starts another.
 *
 * A session is a file between FILE_OPEN and its answer; a thread of its own opens, keeps
 * and closes the file. A lane is a socket and memory of a worker, with a thread that
 * moves one piece after the other, of any session. A session's file stays open until no
 * lane uses it.
 */
#include "worker/file_process.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/user_errno.h"
#include "protocol/wire.h"
#include "worker/file.h"
#include "worker/serve.h"
#include "worker/worker.h"

struct session {
	struct worker *worker;
	struct job job; /* FILE_OPEN; its descriptor is the socket to the worker */
	struct file file;
	uint64_t number;
	bool open;
	unsigned int n_busy; /* lanes that move a piece of the file; sessions.lock */
	struct session *prev, *next;
};

struct lane {
	int socket;
	uint8_t *memory;
	uint64_t size;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t idle; /* a session that has no busy lane any more */
	struct session *list;
	uint64_t n_begun;
	uint64_t process; /* the number of this process */
} sessions = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.idle = PTHREAD_COND_INITIALIZER,
};

/* Threads end by themselves. Returns: whether it runs. */
static bool thread_start(void *(*run)(void *userdata), void *userdata)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, userdata))
		return false;
	pthread_detach(thread);
	return true;
}

static bool record_send(int socket, const void *record, size_t size)
{
	ssize_t n;

	do
		n = send(socket, record, size, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)size;
}

/* ---- lanes ---- */

static struct session *session_take(uint64_t number)
{
	struct session *session;

	pthread_mutex_lock(&sessions.lock);
	DL_SEARCH_SCALAR(sessions.list, session, number, number);
	if (session)
		session->n_busy++;
	pthread_mutex_unlock(&sessions.lock);
	return session;
}

static void session_give(struct session *session)
{
	pthread_mutex_lock(&sessions.lock);
	if (--session->n_busy == 0)
		pthread_cond_broadcast(&sessions.idle);
	pthread_mutex_unlock(&sessions.lock);
}

static struct wire_piece_told lane_move(const struct lane *lane,
					const struct wire_piece *piece)
{
	struct wire_piece_told told = { 0, EBADF };
	struct session *session;

	if (wire_check_piece(piece, lane->size))
		worker_die("was sent a piece of a file with %s",
			   wire_check_piece(piece, lane->size));
	session = session_take(piece->file);
	if (!session)
		return told;
	told.error = (uint32_t)user_errno(-file_move_piece(
		&session->file, piece, lane->memory, lane->size, &told.moved));
	session_give(session);
	return told;
}

static struct lane *lane_free(struct lane *lane)
{
	if (lane->memory != MAP_FAILED)
		munmap(lane->memory, lane->size);
	closep(&lane->socket);
	free(lane);
	return NULL;
}

static void *lane_run(void *userdata)
{
	struct lane *lane = userdata;
	struct wire_piece piece;
	struct wire_piece_told told;
	ssize_t n;

	for (;;) {
		n = recv(lane->socket, &piece, sizeof(piece), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n != sizeof(piece))
			break;
		told = lane_move(lane, &piece);
		if (!record_send(lane->socket, &told, sizeof(told)))
			break;
	}
	lane_free(lane);
	return NULL;
}

/* Without memory the lane ends at once, and with it the move in the worker. */
static void lane_start(int socket, int memory_fd)
{
	struct lane *lane = malloc(sizeof(*lane));
	struct stat stat;

	if (!lane || fstat(memory_fd, &stat) < 0) {
		free(lane);
		close(socket);
		return;
	}
	lane->socket = socket;
	lane->size = (uint64_t)stat.st_size;
	lane->memory =
		mmap(NULL, lane->size, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
	if (lane->memory == MAP_FAILED || !thread_start(lane_run, lane))
		lane_free(lane);
}

/* ---- sessions ---- */

union control {
	struct cmsghdr header;
	char space[CMSG_SPACE(2 * sizeof(int))];
};

/* Waits for what the worker asks. Returns: false when the worker has closed the socket.
 */
static bool session_hear(const struct session *session, uint32_t *ret_ask, int fds[2])
{
	struct iovec part = { ret_ask, sizeof(*ret_ask) };
	union control control;
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	const struct cmsghdr *header;
	ssize_t n;

	do
		n = recvmsg(session->job.fd, &message, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return false;
	header = CMSG_FIRSTHDR(&message);
	fds[0] = fds[1] = -1;
	if (header && header->cmsg_len == CMSG_LEN(2 * sizeof(int)))
		memcpy(fds, CMSG_DATA(header), 2 * sizeof(int));
	if (n != sizeof(*ret_ask) || message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ||
	    !*ret_ask || *ret_ask >= N_WIRE_FILE_ASKS ||
	    (*ret_ask == WIRE_FILE_LANE) != (fds[0] >= 0) || (header && fds[0] < 0))
		worker_die("was asked by its worker what it does not know");
	return true;
}

/* Whether the worker has closed its end. */
static bool session_is_over(const void *userdata)
{
	const struct session *session = userdata;
	char byte;

	return recv(session->job.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static void session_tell(const struct session *session, enum wire_file_end end, int error)
{
	const struct wire_file_told told = {
		.bytes = session->file.bytes,
		.process = sessions.process,
		.file = session->number,
		.end = end,
		.error = (uint32_t)user_errno(error),
	};

	record_send(session->job.fd, &told, sizeof(told));
}

static enum wire_file_end session_open(struct session *session, int *ret_error)
{
	const struct wire_file_open *open = session->job.payload;
	const struct wire_request *request = &session->job.request;
	enum wire_file_end end;

	session->file.save = request->flags & WIRE_TO_FILE;
	end = session->file.save
		      ? file_open_to_save(&session->file, open->path, open->mode,
					  open->length, ret_error)
		      : file_open_to_load(&session->file, request, open, ret_error);
	if (end != WIRE_FILE_DONE) {
		file_close(&session->file);
		return end;
	}
	session->open = true;
	pthread_mutex_lock(&sessions.lock);
	session->number = ++sessions.n_begun;
	DL_APPEND(sessions.list, session);
	pthread_mutex_unlock(&sessions.lock);
	return end;
}

/* No lane begins a piece of the file any more; waits for those that have begun. */
static void session_close(struct session *session)
{
	if (!session->open)
		return;
	session->open = false;
	pthread_mutex_lock(&sessions.lock);
	DL_DELETE(sessions.list, session);
	while (session->n_busy)
		pthread_cond_wait(&sessions.idle, &sessions.lock);
	pthread_mutex_unlock(&sessions.lock);
	file_close(&session->file);
}

static void session_keep(struct session *session)
{
	int r = -EBADF;

	if (session->open && session->file.save)
		r = file_keep(&session->file, session_is_over, session);
	session_tell(session, r < 0 ? WIRE_FILE_NOT_KEPT : WIRE_FILE_DONE, -r);
}

static void session_serve(struct session *session)
{
	uint32_t ask;
	int fds[2];

	while (session_hear(session, &ask, fds)) {
		switch (ask) {
		case WIRE_FILE_LANE:
			lane_start(fds[0], fds[1]);
			close(fds[1]);
			break;
		case WIRE_FILE_KEEP:
			session_keep(session);
			break;
		case WIRE_FILE_CLOSE:
			session_close(session);
			session_tell(session, WIRE_FILE_DONE, 0);
			break;
		}
	}
}

static void session_answer(struct session *session, int r)
{
	const struct cuda_failure none = CUDA_FAILURE_NONE;

	serve_answer(session->worker, &session->job, r, &none);
	free(session->job.payload);
	free(session);
}

static void *session_run(void *userdata)
{
	struct session *session = userdata;
	enum wire_file_end end;
	int error = 0;

	end = session_open(session, &error);
	session_tell(session, end, error);
	if (end == WIRE_FILE_DONE)
		session_serve(session);
	session_close(session);
	session_answer(session, 0);
	return NULL;
}

void file_process_run(struct worker *worker)
{
	struct session *session;

	sessions.process = clock_ns(CLOCK_MONOTONIC) | 1;
	for (;;) {
		session = calloc(1, sizeof(*session));
		if (!session)
			worker_die("has no memory left");
		session->worker = worker;
		session->file = (struct file)FILE_INIT;
		if (!serve_receive(worker, WIRE_SOCKET_FD, &session->job))
			break;
		if (session->job.request.op != WIRE_FILE_OPEN)
			worker_die("was sent a request that is none of files");
		if (!thread_start(session_run, session)) {
			session_tell(session, WIRE_FILE_NOT_OPENED, EAGAIN);
			session_answer(session, 0);
		}
	}
	free(session);
}

/* SPDX-License-Identifier: MIT */
#include "worker/file_move.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "protocol/wire.h"
#include "worker/lanes.h"
#include "worker/worker.h"

#define CLOSE_MS 1000

/* How the job ends: in the answer's values. Returns: 0. */
static int move_end(struct job *job, uint64_t bytes, enum wire_file_end end, int error)
{
	job->value[0] = bytes;
	job->value[1] = WIRE_FILE_ENDED(end, error);
	return 0;
}

/* The process of files does not tell how the move ends, for r. Returns: 0. */
static int move_end_untold(struct job *job, uint64_t bytes, int r)
{
	if (r == -EINTR)
		return move_end(job, bytes, WIRE_FILE_STOPPED, EINTR);
	return move_end(job, bytes, WIRE_FILE_LOST, EIO);
}

/*
 * Waits until the file is open or kept. Returns: 0 with told->end WIRE_FILE_DONE; else
 * the job has ended, 1.
 */
static int move_hear(const struct file_move *move, struct job *job, uint64_t bytes,
		     struct wire_file_told *told)
{
	int r = move_receive(move, job->fd, told, sizeof(*told));

	if (r == 0 && wire_check_told(told, move->length))
		r = -ECONNRESET;
	if (r < 0)
		move_end_untold(job, bytes, r);
	else if (told->end == WIRE_FILE_OUT_OF_RANGE)
		move_end(job, told->bytes, told->end, (int)told->error);
	else if (told->end != WIRE_FILE_DONE)
		move_end(job, bytes, told->end, (int)told->error);
	return r < 0 || told->end != WIRE_FILE_DONE;
}

/* Moves the bytes of an open file. Returns: 0; -errno with a failure. */
static int move_run(struct file_move *move, struct job *job, struct cuda_failure *failure)
{
	__atomic_store_n(&move->shared->total, move->length, __ATOMIC_RELEASE);
	lanes_move(move);
	*failure = move->failure;
	if (move->error)
		return move->error;
	if (move->file_error == -EINTR || move->file_error == -ECONNRESET)
		return move_end_untold(job, move->moved, move->file_error);
	if (move->file_error == -ENODATA)
		return move_end(job, move->moved, WIRE_FILE_SHORT, ENODATA);
	if (move->file_error)
		return move_end(job, move->moved, WIRE_FILE_NOT_MOVED, -move->file_error);
	if (move->moved < move->length)
		return move_end(job, move->moved, WIRE_FILE_STOPPED, EINTR);
	return move_end(job, move->moved, WIRE_FILE_DONE, 0);
}

/* Has the saved file take its place. Returns: 0. */
static int move_keep(const struct file_move *move, struct job *job)
{
	const uint32_t ask = WIRE_FILE_KEEP;
	struct wire_file_told told;

	/* The caller has been told that nothing was saved. */
	if (__atomic_load_n(&move->shared->stop, __ATOMIC_RELAXED))
		return move_end_untold(job, move->moved, -EINTR);
	if (send(job->fd, &ask, sizeof(ask), MSG_NOSIGNAL) < 0)
		return move_end_untold(job, move->moved, -ECONNRESET);
	move_hear(move, job, move->moved, &told);
	return 0;
}

/*
 * Waits until the file is closed: whoever hears that the move has ended may unmount the
 * file system or run the file. A file system may hang, so the wait has an end. The move
 * has ended, whatever comes of it.
 */
static void move_close(const struct file_move *move, const struct job *job)
{
	const uint32_t ask = WIRE_FILE_CLOSE;
	struct pollfd socket = { .fd = job->fd, .events = POLLIN };

	if (!__atomic_load_n(&move->shared->stop, __ATOMIC_RELAXED) &&
	    send(job->fd, &ask, sizeof(ask), MSG_NOSIGNAL) > 0)
		(void)poll(&socket, 1, CLOSE_MS);
}

static int move_file(struct worker *worker, struct job *job, bool save,
		     struct cuda_failure *failure)
{
	struct file_move move = {
		.worker = worker,
		.job = job,
		.shared = (struct wire_file *)(worker->staging + job->request.offset),
		.save = save,
		.length = job->request.length,
		.failure = CUDA_FAILURE_NONE,
	};
	struct wire_file_told told;
	int r;

	r = move_listen(job->fd);
	if (r < 0)
		return r;
	if (move_hear(&move, job, 0, &told))
		return 0;
	move.process = told.process;
	move.file = told.file;
	move.length = told.bytes;
	r = move_run(&move, job, failure);
	if (r == 0 && save && !job->value[1])
		r = move_keep(&move, job);
	move_close(&move, job);
	return r;
}

int file_load(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	return move_file(worker, job, false, failure);
}

int file_save(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	return move_file(worker, job, true, failure);
}

/* SPDX-License-Identifier: MIT */
/*
 * Pieces are dealt in the order of the file, so the bytes before the first piece that
 * failed are moved when all lanes have ended.
 *
 * A lane has two buffers with a stream each: while the GPU takes one, the other is
 * filled. Making buffers costs more than a small load, so they are kept for the next
 * file. They belong to no device and no move; a worker has LANES_ALL pairs at most, and a
 * move gives lanes up when another move has none. A thread takes the pairs apart
 * when none has been used for a while.
 *
 * A file's bytes are asked of the page cache first. Only those that the cache does not
 * have are read past the cache (O_DIRECT): the disk then writes into the buffers itself,
 * and no file that others use is pushed out of the cache.
 */
#include "worker/lanes.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>

#include <utlist.h>

#include "base/clock.h"
#include "protocol/wire.h"
#include "worker/serve.h"
#include "worker/worker.h"

#define LANES_MAX 8  /* of a move */
#define LANES_ALL 16 /* of all moves of the worker */
#define PIECE	  ((uint64_t)4 << 20)
#define SECTOR	  ((uint64_t)4096) /* direct reads begin and end at multiples */
#define BUFFER	  (PIECE + 2 * SECTOR)
#define N_BUFFERS 2
#define LOOK_MS	  50 /* a move without a lane looks for its end */

struct pair {
	uint8_t *memory;
	CUstream streams[N_BUFFERS][WIRE_DEVICES_MAX]; /* NULL: not made yet */
	struct pair *next;
};

struct lane {
	struct file_move *move;
	struct pair *pair; /* NULL for host memory */
	uint64_t pending[N_BUFFERS];
	pthread_t thread;
};

/* ---- pairs of pinned buffers ---- */

static struct pair *pair_free(struct worker *worker, struct pair *pair)
{
	if (!pair)
		return NULL;
	for (unsigned int i = 0; i < N_BUFFERS * WIRE_DEVICES_MAX; i++) {
		CUstream stream =
			pair->streams[i / WIRE_DEVICES_MAX][i % WIRE_DEVICES_MAX];

		if (stream)
			CUDA(worker->driver, NULL, cuStreamDestroy_v2, stream);
	}
	if (pair->memory) {
		CUDA(worker->driver, NULL, cuMemHostUnregister, pair->memory);
		munmap(pair->memory, N_BUFFERS * BUFFER);
	}
	free(pair);
	return NULL;
}

static int pair_new(struct worker *worker, struct pair **ret_pair,
		    struct cuda_failure *failure)
{
	_cleanup_free_ struct pair *pair = calloc(1, sizeof(*pair));
	void *memory;
	int r;

	if (!pair)
		return -ENOMEM;
	memory = mmap(NULL, N_BUFFERS * BUFFER, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	r = CUDA(worker->driver, failure, cuMemHostRegister_v2, memory,
		 N_BUFFERS * BUFFER, CU_MEMHOSTREGISTER_PORTABLE);
	if (r < 0) {
		munmap(memory, N_BUFFERS * BUFFER);
		return r;
	}
	pair->memory = memory;
	*ret_pair = take_ptr(pair);
	return 0;
}

static bool move_is_stopped(const struct file_move *move)
{
	return __atomic_load_n(&move->shared->stop, __ATOMIC_RELAXED);
}

/*
 * Takes a pair for the move. Returns: 0; -EAGAIN when there is none, only without wait;
 * -EINTR when the move is stopped; else negative with a failure.
 */
static int pair_take(struct file_move *move, bool wait, struct pair **ret_pair,
		     struct cuda_failure *failure)
{
	struct lane_pairs *pairs = &move->worker->lanes;
	struct pair *pair = NULL;
	bool make = false;
	int r = 0;

	pthread_mutex_lock(&pairs->lock);
	pairs->n_waiting += wait;
	while (r == 0 && !pair && !make) {
		pair = pairs->spare;
		make = !pair && pairs->n_made < LANES_ALL;
		if (pair)
			LL_DELETE(pairs->spare, pair);
		else if (make)
			pairs->n_made++;
		else if (!wait)
			r = -EAGAIN;
		else if (move_is_stopped(move))
			r = -EINTR;
		else
			clock_cond_wait(&pairs->given, &pairs->lock,
					clock_ms() + LOOK_MS);
	}
	pairs->n_waiting -= wait;
	pthread_mutex_unlock(&pairs->lock);
	if (make)
		r = pair_new(move->worker, &pair, failure);
	if (make && r < 0) {
		pthread_mutex_lock(&pairs->lock);
		pairs->n_made--;
		pthread_mutex_unlock(&pairs->lock);
	}
	*ret_pair = pair;
	return r;
}

static void *pairs_watch(void *userdata);

static void pair_give(struct file_move *move, struct pair *pair)
{
	struct lane_pairs *pairs = &move->worker->lanes;
	pthread_t thread;

	if (!pair)
		return;
	pthread_mutex_lock(&pairs->lock);
	LL_PREPEND(pairs->spare, pair);
	pairs->used_ms = clock_ms();
	pairs->device = move->job->request.device;
	if (!pairs->watched &&
	    pthread_create(&thread, NULL, pairs_watch, move->worker) == 0) {
		pthread_detach(thread);
		pairs->watched = true;
	}
	pthread_cond_broadcast(&pairs->given);
	pthread_mutex_unlock(&pairs->lock);
}

/* Takes the spare pairs apart when none has been used for a while. */
static void *pairs_watch(void *userdata)
{
	struct worker *worker = userdata;
	struct lane_pairs *pairs = &worker->lanes;
	struct cuda_failure failure;
	struct pair *pair, *list;
	unsigned int device;

	pthread_mutex_lock(&pairs->lock);
	while (clock_ms() < pairs->used_ms + pairs->keep_ms)
		clock_cond_wait(&pairs->given, &pairs->lock,
				pairs->used_ms + pairs->keep_ms);
	list = take_ptr(pairs->spare);
	LL_FOREACH (list, pair)
		pairs->n_made--;
	device = pairs->device;
	pairs->watched = false;
	pthread_mutex_unlock(&pairs->lock);

	/* A lost context gives nothing back, and its process is about to end. */
	if (worker_is_lost(worker, &failure) ||
	    device_enter(worker, device, &failure) < 0)
		return NULL;
	while ((pair = list)) {
		LL_DELETE(list, pair);
		pair_free(worker, pair);
	}
	return NULL;
}

/* Whether a move without a lane waits for the pair of another. */
static bool pair_is_wanted(struct file_move *move)
{
	struct lane_pairs *pairs = &move->worker->lanes;
	bool wanted;

	pthread_mutex_lock(&pairs->lock);
	wanted = pairs->n_waiting && !pairs->spare;
	pthread_mutex_unlock(&pairs->lock);
	return wanted;
}

void lanes_init(struct worker *worker, int64_t keep_ms)
{
	struct lane_pairs *pairs = &worker->lanes;

	pthread_mutex_init(&pairs->lock, NULL);
	clock_cond_init(&pairs->given);
	pairs->keep_ms = keep_ms;
}

/* ---- the result of a move ---- */

/* The bytes from `at` on are not moved. */
static void move_fail(struct file_move *move, uint64_t at, int file_error, int error,
		      const struct cuda_failure *failure)
{
	pthread_mutex_lock(&move->lock);
	atomic_store(&move->ended, true);
	if (file_error && at < move->moved) {
		move->moved = at;
		move->file_error = file_error;
	}
	if (error && !move->error) {
		move->error = error;
		move->failure = *failure;
	}
	pthread_mutex_unlock(&move->lock);
}

/* ---- one piece ---- */

/*
 * Reads past the page cache, whole sectors. In a buffer, the place is as far from a
 * sector's start as the place in the file, and there is room in front and behind; in the
 * memory itself there is none. Returns: bytes of the piece read; 0 at the end of the
 * file; -errno; -EINVAL when the sectors don't fit.
 */
static ssize_t piece_read_direct(const struct file_move *move, uint8_t *bytes,
				 uint64_t length, uint64_t at)
{
	uint64_t before = at % SECTOR, sectors = align_up(before + length, SECTOR);
	ssize_t n;

	if (move->in_place && (before || (uintptr_t)bytes % SECTOR || length < SECTOR))
		return -EINVAL;
	if (move->in_place)
		sectors = length - length % SECTOR;
	n = pread(move->direct_fd, bytes - before, sectors, (off_t)(at - before));
	if (n < 0)
		return -errno;
	return (uint64_t)n <= before ? 0 : (ssize_t)MIN((uint64_t)n - before, length);
}

static ssize_t piece_read_some(const struct file_move *move, uint8_t *bytes,
			       uint64_t length, uint64_t at)
{
	const struct iovec part = { bytes, length };
	ssize_t n;

	if (move->direct_fd >= 0) {
		n = preadv2(move->fd, &part, 1, (off_t)at, RWF_NOWAIT);
		if (n >= 0)
			return n;
		/* The file system can't tell what is in the cache: then it may read. */
		if (errno == EAGAIN) {
			n = piece_read_direct(move, bytes, length, at);
			/* EINVAL: the file system refuses the size or the place of a
			 * sector. */
			if (n != -EINVAL)
				return n;
		}
	}
	n = pread(move->fd, bytes, length, (off_t)at);
	return n < 0 ? -errno : n;
}

/*
 * Reads or writes a piece of the file. *ret_n: bytes done, also on failure. Returns: 0;
 * -errno; -ENODATA at the end of the file.
 */
static int piece_file(const struct file_move *move, uint8_t *bytes, uint64_t length,
		      uint64_t at, uint64_t *ret_n)
{
	ssize_t n;

	for (*ret_n = 0; *ret_n < length; *ret_n += (uint64_t)n) {
		if (move->save) {
			n = pwrite(move->fd, bytes + *ret_n, length - *ret_n,
				   (off_t)(at + *ret_n));
			n = n < 0 ? -errno : n;
		} else {
			n = piece_read_some(move, bytes + *ret_n, length - *ret_n,
					    at + *ret_n);
		}
		if (n == -EINTR)
			n = 0;
		else if (n <= 0)
			return n < 0 ? (int)n : move->save ? -EIO : -ENODATA;
	}
	return 0;
}

static CUstream *lane_stream(const struct lane *lane, unsigned int which)
{
	return &lane->pair->streams[which][lane->move->job->request.device];
}

/* Waits until the GPU is done with a buffer. Returns: r, or the failure of the wait. */
static int buffer_wait(struct lane *lane, unsigned int which, int r,
		       struct cuda_failure *failure)
{
	struct file_move *move = lane->move;

	if (!lane->pending[which])
		return r;
	r = stream_sync(move->worker, *lane_stream(lane, which), r, failure);
	if (r == 0)
		__atomic_fetch_add(&move->shared->done, lane->pending[which],
				   __ATOMIC_RELAXED);
	lane->pending[which] = 0;
	return r;
}

/* Makes a buffer ready to be used. Returns: 0; -errno with a failure. */
static int buffer_take(struct lane *lane, unsigned int which,
		       struct cuda_failure *failure)
{
	CUstream *stream = lane_stream(lane, which);

	if (!*stream)
		return CUDA(lane->move->worker->driver, failure, cuStreamCreate, stream,
			    CU_STREAM_NON_BLOCKING);
	return buffer_wait(lane, which, 0, failure);
}

/* Returns: 0; -errno with a failure. */
static int lane_load_piece(struct lane *lane, unsigned int which, uint8_t *bytes,
			   uint64_t at, uint64_t length, struct cuda_failure *failure)
{
	struct file_move *move = lane->move;
	const struct wire_request *request = &move->job->request;
	uint64_t n;
	int r;

	r = piece_file(move, bytes, length, request->source + at, &n);
	if (r < 0)
		move_fail(move, at + n, r, 0, NULL);
	if (!n)
		return 0;
	lane->pending[which] = n;
	return CUDA(move->worker->driver, failure, cuMemcpyHtoDAsync_v2,
		    request->address + at, bytes, n, *lane_stream(lane, which));
}

static int lane_save_piece(struct lane *lane, unsigned int which, uint8_t *bytes,
			   uint64_t at, uint64_t length, struct cuda_failure *failure)
{
	struct file_move *move = lane->move;
	const struct wire_request *request = &move->job->request;
	uint64_t n;
	int r;

	lane->pending[which] = length;
	r = CUDA(move->worker->driver, failure, cuMemcpyDtoHAsync_v2, bytes,
		 request->address + at, length, *lane_stream(lane, which));
	r = buffer_wait(lane, which, r, failure);
	if (r < 0)
		return r;
	r = piece_file(move, bytes, length, request->source + at, &n);
	if (r < 0)
		move_fail(move, at + n, r, 0, NULL);
	return 0;
}

/* Returns: 0; -errno with a failure. */
static int lane_move_buffered(struct lane *lane, unsigned int which, uint64_t at,
			      uint64_t length, struct cuda_failure *failure)
{
	const struct file_move *move = lane->move;
	uint8_t *bytes = lane->pair->memory + which * BUFFER +
			 (move->job->request.source + at) % SECTOR;
	int r = buffer_take(lane, which, failure);

	if (r < 0)
		return r;
	return move->save ? lane_save_piece(lane, which, bytes, at, length, failure)
			  : lane_load_piece(lane, which, bytes, at, length, failure);
}

static void lane_move_in_place(const struct lane *lane, uint64_t at, uint64_t length)
{
	struct file_move *move = lane->move;
	const struct wire_request *request = &move->job->request;
	uint64_t n;
	int r;

	r = piece_file(move, (uint8_t *)request->address + at, length,
		       request->source + at, &n);
	__atomic_fetch_add(&move->shared->done, n, __ATOMIC_RELAXED);
	if (r < 0)
		move_fail(move, at + n, r, 0, NULL);
}

/* ---- a lane ---- */

/* Returns: 0; -errno with a failure of the driver. */
static int lane_move_pieces(struct lane *lane, bool first, struct cuda_failure *failure)
{
	struct file_move *move = lane->move;
	int r = 0;

	for (unsigned int which = 0; r == 0; which = !which) {
		uint64_t at;

		if (atomic_load(&move->ended) || move_is_stopped(move) ||
		    (!first && pair_is_wanted(move)))
			break;
		at = atomic_fetch_add(&move->next, PIECE);
		if (at >= move->length)
			break;
		if (lane->pair)
			r = lane_move_buffered(lane, which, at,
					       MIN(PIECE, move->length - at), failure);
		else
			lane_move_in_place(lane, at, MIN(PIECE, move->length - at));
	}
	for (unsigned int which = 0; which < N_BUFFERS; which++)
		r = buffer_wait(lane, which, r, failure);
	return r;
}

/*
 * Gets all that a lane needs. Only the first lane of a move has to: it waits for a pair.
 * Returns: 0; -EAGAIN when the lane is not needed; -EINTR when the move is stopped;
 * else negative with a failure.
 */
static int lane_open(struct lane *lane, bool first, struct cuda_failure *failure)
{
	struct file_move *move = lane->move;
	int r;

	if (move->in_place)
		return 0;
	r = device_enter(move->worker, move->job->request.device, failure);
	if (r == 0)
		r = pair_take(move, first, &lane->pair, failure);
	return r < 0 && !first ? -EAGAIN : r;
}

static void lane_run(struct lane *lane, bool first)
{
	struct cuda_failure failure = CUDA_FAILURE_NONE;
	int r = lane_open(lane, first, &failure);

	if (r == 0)
		r = lane_move_pieces(lane, first, &failure);
	pair_give(lane->move, take_ptr(lane->pair));
	if (r < 0 && r != -EAGAIN && r != -EINTR)
		move_fail(lane->move, 0, 0, r, &failure);
}

static void *lane_main(void *userdata)
{
	lane_run(userdata, false);
	return NULL;
}

void lanes_move(struct file_move *move)
{
	uint64_t n_pieces = (move->length + PIECE - 1) / PIECE;
	uint64_t n_cpus = MIN((uint64_t)get_nprocs(), (uint64_t)LANES_MAX);
	uint64_t n = MIN(n_pieces, n_cpus);
	struct lane lanes[LANES_MAX] = { 0 };
	unsigned int started = 1;

	pthread_mutex_init(&move->lock, NULL);
	move->in_place =
		wire_is_host(move->job->request.address, move->job->request.length);
	move->moved = move->length;
	for (unsigned int i = 0; i < LANES_MAX; i++)
		lanes[i].move = move;
	while (started < n && pthread_create(&lanes[started].thread, NULL, lane_main,
					     &lanes[started]) == 0)
		started++;
	lane_run(&lanes[0], true);
	while (started > 1)
		pthread_join(lanes[--started].thread, NULL);
	/* Stopped: no piece was begun from there on. */
	move->moved = MIN(move->moved, atomic_load(&move->next));
	pthread_mutex_destroy(&move->lock);
}

/* SPDX-License-Identifier: MIT */
/*
 * Pieces are dealt in the order of the file, so the bytes before the first piece that
 * failed are moved when all lanes have ended.
 *
 * A lane has two buffers with a stream each: while the GPU or memcpy() takes one, the
 * other is filled. The process of files always has the next piece to do already. Making
 * buffers costs more than a small load, so they are kept for the next file. They belong
 * to no device and no move; a worker has LANES_ALL pairs at most, and a move gives lanes
 * up when another move has none. A thread takes the pairs apart when none has been used
 * for a while.
 *
 * A pair is a memfd, shared with the process of files, and has a socket to a thread
 * there. The process may hang, and this one never waits for it longer than the move goes
 * on: a pair with an unfinished piece is left to that process, and counts as made for as
 * long as loads go there.
 */
#include "worker/lanes.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/time.h>

#include <utlist.h>

#include "base/clock.h"
#include "protocol/wire.h"
#include "worker/serve.h"
#include "worker/worker.h"

#define LANES_MAX 8  /* of a move */
#define LANES_ALL 16 /* of all moves of the worker */
#define PIECE	  ((uint64_t)4 << 20)
#define BUFFER	  (PIECE + 2 * LANE_SECTOR)
#define N_BUFFERS 2
#define LOOK_MS	  50 /* a move that waits looks for its end */

struct pair {
	uint8_t *memory;
	int fd;		  /* of the memory */
	int socket;	  /* to the process of files; -1: none */
	uint64_t process; /* its number */
	bool hangs;	  /* an unfinished piece is there */
	bool registered;  /* with the driver */
	CUstream streams[N_BUFFERS][WIRE_DEVICES_MAX]; /* NULL: not made yet */
	struct pair *next;
};

/* A piece that the process of files has been asked for. */
struct piece {
	uint8_t *bytes;
	uint64_t at;
	uint64_t length; /* 0: none */
};

struct lane {
	struct file_move *move;
	struct pair *pair;
	struct piece asked[N_BUFFERS];
	uint64_t pending[N_BUFFERS]; /* bytes that the GPU copies */
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
	if (pair->registered)
		CUDA(worker->driver, NULL, cuMemHostUnregister, pair->memory);
	if (pair->memory && pair->memory != MAP_FAILED)
		munmap(pair->memory, N_BUFFERS * BUFFER);
	closep(&pair->socket);
	closep(&pair->fd);
	free(pair);
	return NULL;
}

/* No other process can take the memory away. */
static int pair_map(struct pair *pair)
{
	pair->fd = memfd_create("gpumem-lane", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (pair->fd < 0 || ftruncate(pair->fd, N_BUFFERS * BUFFER) < 0 ||
	    fcntl(pair->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	pair->memory = mmap(NULL, N_BUFFERS * BUFFER, PROT_READ | PROT_WRITE, MAP_SHARED,
			    pair->fd, 0);
	return pair->memory == MAP_FAILED ? -errno : 0;
}

static int pair_new(struct worker *worker, struct pair **ret_pair,
		    struct cuda_failure *failure)
{
	struct pair *pair = calloc(1, sizeof(*pair));
	int r;

	if (!pair)
		return -ENOMEM;
	pair->socket = -1;
	r = pair_map(pair);
	if (r == 0)
		r = CUDA(worker->driver, failure, cuMemHostRegister_v2, pair->memory,
			 N_BUFFERS * BUFFER, CU_MEMHOSTREGISTER_PORTABLE);
	pair->registered = r == 0;
	if (r < 0)
		pair = pair_free(worker, pair);
	else
		*ret_pair = pair;
	return r;
}

static bool move_is_stopped(const struct file_move *move)
{
	return __atomic_load_n(&move->shared->stop, __ATOMIC_RELAXED);
}

int move_listen(int socket)
{
	const struct timeval look = { 0, LOOK_MS * 1000 };

	return setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &look, sizeof(look)) < 0
		       ? -errno
		       : 0;
}

int move_receive(const struct file_move *move, int socket, void *record, size_t size)
{
	ssize_t n;

	for (;;) {
		n = recv(socket, record, size, 0);
		if (n == (ssize_t)size)
			return 0;
		if (n >= 0 || (errno != EAGAIN && errno != EINTR))
			return -ECONNRESET;
		if (move_is_stopped(move))
			return -EINTR;
	}
}

/*
 * Takes a pair for the move. Returns: 0; -EAGAIN when there is none, only without wait;
 * -EINTR when the move is stopped; -EBUSY when all are left to a process that hangs; else
 * negative with a failure.
 */
static int pair_take(struct file_move *move, bool wait, struct pair **ret_pair,
		     struct cuda_failure *failure)
{
	struct lane_pairs *pairs = &move->worker->lanes;
	struct pair *pair = NULL;
	bool make = false;
	int r = 0;

	pthread_mutex_lock(&pairs->lock);
	if (pairs->process != move->process)
		pairs->n_left = 0;
	pairs->process = move->process;
	pairs->n_waiting += wait;
	while (r == 0 && !pair && !make) {
		pair = pairs->spare;
		make = !pair && pairs->n_made + pairs->n_left < LANES_ALL;
		if (pair)
			LL_DELETE(pairs->spare, pair);
		else if (make)
			pairs->n_made++;
		else if (!wait)
			r = -EAGAIN;
		else if (pairs->n_left >= LANES_ALL)
			r = -EBUSY;
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

/*
 * Has a thread of the process of files serve the pair. Returns: 0; -ECONNRESET when the
 * process has ended; -errno.
 */
static int pair_connect(const struct file_move *move, struct pair *pair)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(2 * sizeof(int))];
	} control = {
		.header = {
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
			.cmsg_len = CMSG_LEN(2 * sizeof(int)),
		},
	};
	uint32_t ask = WIRE_FILE_LANE;
	struct iovec part = { &ask, sizeof(ask) };
	const struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control.space),
	};
	int sockets[2], r = 0;

	if (pair->process == move->process)
		return 0;
	closep(&pair->socket);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return -errno;
	memcpy(CMSG_DATA(&control.header), (int[]){ sockets[1], pair->fd },
	       2 * sizeof(int));
	if (sendmsg(move->job->fd, &message, MSG_NOSIGNAL) < 0)
		r = errno == EPIPE ? -ECONNRESET : -errno;
	if (r == 0)
		r = move_listen(sockets[0]);
	close(sockets[1]);
	pair->socket = sockets[0];
	pair->process = r == 0 ? move->process : 0;
	return r;
}

static void *pairs_watch(void *userdata);

static void pair_give(struct file_move *move, struct pair *pair)
{
	struct lane_pairs *pairs = &move->worker->lanes;
	bool hangs = pair && pair->hangs;
	pthread_t thread;

	if (!pair)
		return;
	/* The unfinished piece may still be written to the memory. */
	if (hangs)
		pair = pair_free(move->worker, pair);
	pthread_mutex_lock(&pairs->lock);
	if (hangs) {
		pairs->n_made--;
		pairs->n_left += pairs->process == move->process;
	} else {
		LL_PREPEND(pairs->spare, pair);
	}
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
 * Has a piece of the file read into the buffer, or written from there. Returns: 0;
 * -ECONNRESET when the process of files has ended.
 */
static int piece_ask(const struct lane *lane, const struct piece *piece)
{
	const struct file_move *move = lane->move;
	const struct wire_piece record = {
		.file = move->file,
		.at = move->job->request.source + piece->at,
		.length = (uint32_t)piece->length,
		.place = (uint32_t)(piece->bytes - lane->pair->memory),
	};

	return send(lane->pair->socket, &record, sizeof(record), MSG_NOSIGNAL) < 0
		       ? -ECONNRESET
		       : 0;
}

/* *ret_n: bytes done, also on failure. Returns: as move->file_error. */
static int piece_hear(const struct lane *lane, const struct piece *piece, uint64_t *ret_n)
{
	struct wire_piece_told told;
	int r;

	*ret_n = 0;
	r = move_receive(lane->move, lane->pair->socket, &told, sizeof(told));
	if (r == 0 && wire_check_piece_told(&told, piece->length))
		r = -ECONNRESET;
	lane->pair->hangs = r < 0;
	if (r < 0)
		return r;
	*ret_n = told.moved;
	return -(int)told.error;
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

	if (!*stream && !lane->move->by_cpu)
		return CUDA(lane->move->worker->driver, failure, cuStreamCreate, stream,
			    CU_STREAM_NON_BLOCKING);
	return buffer_wait(lane, which, 0, failure);
}

/* Begins to copy a buffer into the memory. Returns: 0; -errno with a failure. */
static int buffer_load(struct lane *lane, unsigned int which, const uint8_t *bytes,
		       uint64_t at, uint64_t length, struct cuda_failure *failure)
{
	struct file_move *move = lane->move;
	uint64_t address = move->job->request.address + at;

	if (move->by_cpu) {
		memcpy((void *)address, bytes, length);
		__atomic_fetch_add(&move->shared->done, length, __ATOMIC_RELAXED);
		return 0;
	}
	lane->pending[which] = length;
	return CUDA(move->worker->driver, failure, cuMemcpyHtoDAsync_v2, address, bytes,
		    length, *lane_stream(lane, which));
}

/* Copies the memory into a buffer. Returns: 0; -errno with a failure. */
static int buffer_save(struct lane *lane, unsigned int which, uint8_t *bytes, uint64_t at,
		       uint64_t length, struct cuda_failure *failure)
{
	struct file_move *move = lane->move;
	uint64_t address = move->job->request.address + at;
	int r;

	if (move->by_cpu) {
		memcpy(bytes, (const void *)address, length);
		__atomic_fetch_add(&move->shared->done, length, __ATOMIC_RELAXED);
		return 0;
	}
	lane->pending[which] = length;
	r = CUDA(move->worker->driver, failure, cuMemcpyDtoHAsync_v2, bytes, address,
		 length, *lane_stream(lane, which));
	return buffer_wait(lane, which, r, failure);
}

/* Returns: 0; -errno with a failure. */
static int piece_begin(struct lane *lane, unsigned int which, uint64_t at,
		       uint64_t length, struct cuda_failure *failure)
{
	struct file_move *move = lane->move;
	struct piece piece = { .at = at, .length = length };
	int r = buffer_take(lane, which, failure), file_error;

	piece.bytes = lane->pair->memory + which * BUFFER +
		      (move->job->request.source + at) % LANE_SECTOR;
	if (r == 0 && move->save)
		r = buffer_save(lane, which, piece.bytes, at, length, failure);
	if (r < 0)
		return r;
	file_error = piece_ask(lane, &piece);
	if (file_error < 0)
		move_fail(move, at, file_error, 0, NULL);
	else
		lane->asked[which] = piece;
	return 0;
}

/*
 * Waits for a piece that was begun, also after failures: the process of files must not
 * use the buffer any more. Returns: r, or the failure of the copy.
 */
static int piece_finish(struct lane *lane, unsigned int which, int r,
			struct cuda_failure *failure)
{
	struct piece piece = lane->asked[which];
	struct file_move *move = lane->move;
	int file_error;
	uint64_t n;

	lane->asked[which].length = 0;
	if (!piece.length || lane->pair->hangs)
		return r;
	file_error = piece_hear(lane, &piece, &n);
	if (file_error < 0)
		move_fail(move, piece.at + n, file_error, 0, NULL);
	if (r < 0 || !n || move->save)
		return r;
	return buffer_load(lane, which, piece.bytes, piece.at, n, failure);
}

/* ---- a lane ---- */

/* Returns: 0; -errno with a failure of the driver. */
static int lane_move_pieces(struct lane *lane, bool first, struct cuda_failure *failure)
{
	struct file_move *move = lane->move;
	unsigned int which = 0;
	int r = 0;

	for (; r == 0; which = !which) {
		uint64_t at;

		if (atomic_load(&move->ended) || move_is_stopped(move) ||
		    (!first && pair_is_wanted(move)))
			break;
		at = atomic_fetch_add(&move->next, PIECE);
		if (at >= move->length)
			break;
		r = piece_begin(lane, which, at, MIN(PIECE, move->length - at), failure);
		r = piece_finish(lane, !which, r, failure);
	}
	for (unsigned int i = 0; i < N_BUFFERS; i++, which = !which)
		r = piece_finish(lane, which, r, failure);
	for (which = 0; which < N_BUFFERS; which++)
		r = buffer_wait(lane, which, r, failure);
	return r;
}

/*
 * Gets all that a lane needs. Only the first lane of a move has to: it waits for a pair.
 * Returns: 0; -EAGAIN when the lane is not needed; else negative, with a failure if it is
 * the driver's.
 */
static int lane_open(struct lane *lane, bool first, struct cuda_failure *failure)
{
	struct file_move *move = lane->move;
	int r;

	r = device_enter(move->worker, move->job->request.device, failure);
	if (r == 0)
		r = pair_take(move, first, &lane->pair, failure);
	if (r == 0)
		r = pair_connect(move, lane->pair);
	return r < 0 && !first ? -EAGAIN : r;
}

static void lane_run(struct lane *lane, bool first)
{
	struct cuda_failure failure = CUDA_FAILURE_NONE;
	int r = lane_open(lane, first, &failure);

	if (r == 0)
		r = lane_move_pieces(lane, first, &failure);
	pair_give(lane->move, take_ptr(lane->pair));
	if (r == -EINTR || r == -ECONNRESET)
		move_fail(lane->move, 0, r, 0, NULL);
	else if (r < 0 && r != -EAGAIN)
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
	move->by_cpu =
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

/* SPDX-License-Identifier: MIT */
/*
 * The threads, and their turns to receive.
 *
 * All threads are alike. One thread at a time has the turn and sleeps in recvmsg(). When
 * a request arrives that may run beside others, the thread passes the turn to an idle
 * thread and runs the request itself. So no thread has to be woken between the socket and
 * the driver. When all other threads are busy, the thread keeps the turn and queues the
 * request for the next free thread. The holder of the turn finishes MAP and other ordered
 * requests before it receives the next, so they are served even while the GPU is busy.
 *
 * Where there are processors to spare (base/look.h), the thread runs a short request with
 * the turn in hand, and before it sleeps in recvmsg() it looks for the next request. So a
 * worker that is asked again and again wakes no thread at all. The thread passes the turn
 * on while it waits for the GPU, as soon as another request has come or KEEP_NS have gone
 * by. From a thread that is held up anywhere else, as by a driver that compiles, a
 * watchdog takes the turn.
 *
 * Only some of the threads run long transfers, by turns of their payers (long_jobs.h).
 *
 * Requests of a user stream run one after the other (worker/stream.h). Each stream with
 * kernels under way occupies a thread that waits for them, and so does each file that is
 * loaded or saved, so the pool grows with them.
 *
 * Jobs come from a list of free jobs, so a warm pool allocates nothing.
 */
#include "worker/pool.h"

#include <errno.h>
#include <pthread.h>

#include <sys/socket.h>

#include "base/clock.h"
#include "base/look.h"
#include "base/watchdog.h"
#include "protocol/wire.h"
#include "worker/long_jobs.h"
#include "worker/serve.h"
#include "worker/worker.h"

#define N_THREADS     6 /* at the start */
#define N_THREADS_MAX 128

#define KEEP_NS	      50000
#define LOOK_NS	      50000

/* Of this thread: the number of the turn it took; 0: none. The watchdog may have taken
 * the turn since. */
static _Thread_local uint64_t my_turn;

struct pool {
	struct worker *worker;
	struct watchdog watchdog;
	struct look look; /* for the next request; of the thread with the turn */

	pthread_mutex_t lock;  /* guards everything below */
	pthread_cond_t change; /* signals a queued job, a free turn, or the end */
	struct waiting_jobs queue;
	struct long_jobs longs; /* wait beside the queue */
	struct job *spare;
	unsigned int n_busy;	/* threads with a job */
	unsigned int n_threads; /* without the first thread */
	unsigned int n_slow;	/* threads that wait for kernels and files */
	pthread_t threads[N_THREADS_MAX];
	uint64_t turn;	    /* number of the turn under way; 0: the turn is free */
	uint64_t last_turn; /* numbers dealt so far */
	bool keeping;	    /* the thread with the turn runs a request meanwhile */
	uint64_t n_kept;    /* requests run with the turn in hand */
	uint64_t n_seen;    /* of them when the watchdog looked */
	bool over;	    /* the socket is closed */
};

static struct job *pool_spare(struct pool *pool)
{
	struct job *job;

	pthread_mutex_lock(&pool->lock);
	job = pool->spare;
	if (job)
		pool->spare = job->next;
	pthread_mutex_unlock(&pool->lock);
	if (!job)
		job = calloc(1, sizeof(*job));
	if (!job)
		worker_die("has no memory left");
	return job;
}

static void pool_put_spare(struct pool *pool, struct job *job)
{
	free(take_ptr(job->payload));
	pthread_mutex_lock(&pool->lock);
	job->next = pool->spare;
	pool->spare = job;
	pthread_mutex_unlock(&pool->lock);
}

/*
 * Whether the job can run now, on any thread. A job that is finished already becomes
 * spare.
 */
static bool pool_begin(struct pool *pool, struct job *job)
{
	int r = 0;

	if (wire_op_is_ordered(job->request.op)) {
		serve_run(pool->worker, job);
		pool_put_spare(pool, job);
		return false;
	}
	if (job->request.op == WIRE_MODULE_LOAD)
		module_announce(pool->worker, job);
	if (job->request.op == WIRE_LAUNCH)
		return launch_receive(pool->worker, job);
	if (job->request.stream)
		r = stream_take(&pool->worker->streams, job);
	if (r == -EINVAL) {
		serve_refuse(job, EINVAL);
		pool_put_spare(pool, job);
	}
	return r == 0;
}

/* Whether a request waits in the socket, or its end. */
static bool request_waits(void *userdata)
{
	(void)userdata;
	return recv(WIRE_SOCKET_FD, NULL, 0, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
	       errno != EAGAIN;
}

/* Looks for the next request for a while, when the last ones came soon. */
static void pool_look(struct pool *pool)
{
	if (look_is_worthwhile(&pool->look))
		look_for(&pool->look, LOOK_NS, request_waits, NULL);
}

/* Receives until a job can run. Returns: the job; NULL when the socket is closed. */
static struct job *pool_receive(struct pool *pool)
{
	for (;;) {
		struct job *job = pool_spare(pool);

		pool_look(pool);
		if (!serve_receive(pool->worker, WIRE_SOCKET_FD, job)) {
			pool_put_spare(pool, job);
			return NULL;
		}
		if (pool_begin(pool, job))
			return job;
	}
}

static void *thread_run(void *userdata);

/*
 * Whether there is more to do than threads, not counting the thread that has or takes the
 * turn. Sleeping threads can't be counted: a thread just woken may not have run yet.
 */
static bool pool_is_short(const struct pool *pool)
{
	return pool->n_threads <
	       pool->n_busy + pool->queue.n + long_jobs_ready(&pool->longs);
}

/* Whether the job may wait for as long as a kernel or a file system likes. */
static bool job_is_slow(const struct job *job)
{
	return job->request.op == WIRE_LAUNCH || job->request.op == WIRE_FILE_LOAD ||
	       job->request.op == WIRE_FILE_SAVE;
}

/* Adds a thread when such jobs occupy too many. */
static void pool_grow_locked(struct pool *pool)
{
	if (pool_is_short(pool) && 1 + pool->n_threads - pool->n_slow < N_THREADS &&
	    pool->n_threads < N_THREADS_MAX &&
	    pthread_create(&pool->threads[pool->n_threads], NULL, thread_run, pool) == 0)
		pool->n_threads++;
}

static void pool_queue_locked(struct pool *pool, struct job *job)
{
	waiting_jobs_push(job_is_long(job) ? &pool->longs.waiting : &pool->queue, job);
	pool_grow_locked(pool);
	pthread_cond_signal(&pool->change);
}

/* Whether a job waits that could run now. */
static bool pool_has_job(const struct pool *pool)
{
	return pool->queue.n || long_jobs_ready(&pool->longs);
}

/* Long jobs come last, but never wait for all others. Returns: NULL: none. */
static struct job *pool_unqueue_locked(struct pool *pool)
{
	struct job *job = NULL;

	if (!pool->longs.n_running)
		job = long_jobs_pop(&pool->longs);
	return job ?: waiting_jobs_pop(&pool->queue) ?: long_jobs_pop(&pool->longs);
}

/* What a thread is busy with. */
struct load {
	bool is_slow, is_long;
};

static struct load job_load(const struct job *job)
{
	return (struct load){ job_is_slow(job), job_is_long(job) };
}

static void pool_count_locked(struct pool *pool, struct load load, int change)
{
	pool->n_busy += (unsigned int)change;
	if (load.is_slow)
		pool->n_slow += (unsigned int)change;
	if (load.is_long)
		long_jobs_count(&pool->longs, change);
}

/* ---- the turn ---- */

static void pool_free_turn_locked(struct pool *pool)
{
	pool->turn = 0;
	pool->keeping = false;
	pthread_cond_signal(&pool->change);
}

/* Takes the turn from a thread that is held up. */
static bool pool_look_after(void *userdata)
{
	struct pool *pool = userdata;
	bool busy;

	pthread_mutex_lock(&pool->lock);
	busy = pool->n_kept != pool->n_seen;
	if (!busy && pool->keeping)
		pool_free_turn_locked(pool);
	pool->n_seen = pool->n_kept;
	pthread_mutex_unlock(&pool->lock);
	return busy;
}

bool pool_has_turn(void)
{
	return my_turn;
}

void pool_wait(struct worker *worker, uint64_t waited_ns)
{
	struct pool *pool = worker->pool;

	if (!my_turn || (waited_ns < KEEP_NS && !request_waits(NULL)))
		return;
	pthread_mutex_lock(&pool->lock);
	if (pool->turn == my_turn)
		pool_free_turn_locked(pool);
	pthread_mutex_unlock(&pool->lock);
	my_turn = 0;
}

/* The driver may make and free memory only after the kernels under way. */
static bool job_waits_for_kernels(const struct pool *pool, const struct job *job)
{
	bool of_memory = job->request.op == WIRE_ALLOC || job->request.op == WIRE_FREE;

	return of_memory && launch_is_under_way(pool->worker);
}

/* Has the thread keep the turn during a job. Returns: false for jobs that may be long. */
static bool pool_keep_turn_locked(struct pool *pool, const struct job *job)
{
	if (!look_is_possible() || !job_is_short(job) || pool_has_job(pool) ||
	    job_waits_for_kernels(pool, job))
		return false;
	my_turn = pool->turn;
	pool->keeping = true;
	pool->n_kept++;
	watchdog_wake(&pool->watchdog);
	return true;
}

/* Takes back the turn kept during the last job. Returns: false when it is gone. */
static bool pool_resume_turn_locked(struct pool *pool)
{
	bool mine = my_turn && pool->turn == my_turn;

	my_turn = 0;
	if (!mine)
		return false;
	pool->keeping = false;
	if (!pool_has_job(pool))
		return true;
	pool_free_turn_locked(pool);
	return false;
}

/*
 * Has the turn and keeps it until a job arrives for this thread and another thread is
 * free to take the turn. Called and left with the lock held.
 */
static struct job *pool_use_turn_locked(struct pool *pool)
{
	struct load load;
	struct job *job;
	bool passes;

	for (;;) {
		pthread_mutex_unlock(&pool->lock);
		job = pool_receive(pool);
		pthread_mutex_lock(&pool->lock);
		if (!job)
			break;
		load = job_load(job);
		long_jobs_note(&pool->longs, job);
		passes = !load.is_long || long_jobs_pass(&pool->longs);
		if (passes) {
			pool_count_locked(pool, load, 1);
			if (!pool_is_short(pool))
				break;
			pool_count_locked(pool, load, -1);
		}
		pool_queue_locked(pool, job);
	}
	if (!job) {
		pool->over = true;
		pthread_cond_broadcast(&pool->change);
	}
	if (!job || !pool_keep_turn_locked(pool, job))
		pool_free_turn_locked(pool);
	return job;
}

/* Waits for the next job of this thread. Returns: NULL at the end. */
static struct job *pool_next(struct pool *pool)
{
	struct job *job = NULL;

	pthread_mutex_lock(&pool->lock);
	if (pool_resume_turn_locked(pool))
		job = pool_use_turn_locked(pool);
	while (!job) {
		job = pool_unqueue_locked(pool);
		if (job) {
			pool_count_locked(pool, job_load(job), 1);
		} else if (pool->over) {
			break;
		} else if (!pool->turn) {
			pool->turn = ++pool->last_turn;
			job = pool_use_turn_locked(pool);
		} else {
			pthread_cond_wait(&pool->change, &pool->lock);
		}
	}
	pthread_mutex_unlock(&pool->lock);
	return job;
}

/* ---- jobs ---- */

/* The most bytes that the next piece of a long job may have. */
static uint64_t pool_piece(struct pool *pool)
{
	uint64_t piece;

	pthread_mutex_lock(&pool->lock);
	piece = long_jobs_piece(&pool->longs);
	pthread_mutex_unlock(&pool->lock);
	return piece;
}

/* Between two pieces: puts the job behind others that wait. Returns: whether. */
static bool pool_put_behind(struct pool *pool, struct job *job)
{
	bool others;

	pthread_mutex_lock(&pool->lock);
	others = pool->longs.waiting.n;
	if (others)
		waiting_jobs_push(&pool->longs.waiting, job);
	pthread_mutex_unlock(&pool->lock);
	return others;
}

/* Runs a long job to its end, or until others have their turn. */
static void pool_run_long(struct pool *pool, struct job *job)
{
	struct cuda_failure failure = CUDA_FAILURE_NONE;
	int r;

	for (;;) {
		job_cut(job, pool_piece(pool));
		r = serve_job(pool->worker, job, &failure);
		if (r < 0 || !job_go_on(job))
			break;
		if (pool_put_behind(pool, job))
			return;
	}
	serve_answer(pool->worker, job, r, &failure);
	pool_put_spare(pool, job);
}

/* Runs a job, then the jobs that waited for its stream. */
static void pool_run_job(struct pool *pool, struct job *job)
{
	while (job) {
		struct cuda_failure failure = CUDA_FAILURE_NONE;
		uint32_t stream = job->request.stream;
		struct job *next = NULL;
		int r;

		r = serve_job(pool->worker, job, &failure);
		/*
		 * Before the answer, because the broker may destroy the stream after it.
		 */
		if (stream)
			next = stream_give(&pool->worker->streams, stream);
		serve_answer(pool->worker, job, r, &failure);
		pool_put_spare(pool, job);
		job = next;
	}
}

/* This thread may not be the next to look for a job. */
static void pool_end_job(struct pool *pool, struct load load)
{
	pthread_mutex_lock(&pool->lock);
	pool_count_locked(pool, load, -1);
	if (load.is_long && long_jobs_ready(&pool->longs))
		pthread_cond_signal(&pool->change);
	pthread_mutex_unlock(&pool->lock);
}

static void *thread_run(void *userdata)
{
	struct pool *pool = userdata;
	struct job *job;

	while ((job = pool_next(pool))) {
		struct load load = job_load(job);

		if (job->request.op == WIRE_LAUNCH)
			launch_run(pool->worker, job);
		else if (load.is_long)
			pool_run_long(pool, job);
		else
			pool_run_job(pool, job);
		pool_end_job(pool, load);
	}
	return NULL;
}

void pool_put(struct worker *worker, struct job *job)
{
	pool_put_spare(worker->pool, job);
}

void pool_queue(struct worker *worker, struct job *job)
{
	struct pool *pool = worker->pool;

	pthread_mutex_lock(&pool->lock);
	pool_queue_locked(pool, job);
	pthread_mutex_unlock(&pool->lock);
}

/* At the end no thread is added: only idle threads end. */
static void pool_join(struct pool *pool)
{
	for (unsigned int i = 0;; i++) {
		unsigned int n;

		pthread_mutex_lock(&pool->lock);
		n = pool->n_threads;
		pthread_mutex_unlock(&pool->lock);
		if (i >= n)
			return;
		pthread_join(pool->threads[i], NULL);
	}
}

void pool_run(struct worker *worker)
{
	struct pool pool = { .worker = worker };

	pthread_mutex_init(&pool.lock, NULL);
	pthread_cond_init(&pool.change, NULL);
	worker->pool = &pool;
	if (watchdog_init(&pool.watchdog, pool_look_after, &pool) < 0)
		worker_die("can't start its threads");
	/* The first threads may add threads while the last ones are being started. */
	pthread_mutex_lock(&pool.lock);
	for (; pool.n_threads < N_THREADS - 1; pool.n_threads++)
		if (pthread_create(&pool.threads[pool.n_threads], NULL, thread_run,
				   &pool))
			worker_die("can't start its threads");
	pthread_mutex_unlock(&pool.lock);
	thread_run(&pool);
	pool_join(&pool);
	watchdog_deinit(&pool.watchdog);
}

/* SPDX-License-Identifier: MIT */
/*
 * The cost of a transfer through the worker: socket, threads and driver.
 *
 * Prints a line for each size: the median of a single transfer, and the rate with a
 * transfer in flight for each slot of the staging area. Arguments: WORKER and DRIVER.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/spawner.h"
#include "base/text.h"
#include "channel/channel.h"
#include "channel/request.h"
#include "channel/staging.h"
#include "cuda/driver.h"

#define N_SLOTS	 8
#define N_ROUNDS 2000
#define LENGTH	 (64u << 20)

struct transfer {
	struct request request;
	struct bench *bench;
};

struct bench {
	struct spawner spawner;
	struct channel *channel;
	struct staging staging;
	struct transfer transfers[N_SLOTS];
	pthread_mutex_t lock;
	pthread_cond_t change;
	unsigned int n_free;
	bool free[N_SLOTS];
	bool failed;
};

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static void bench_ended(void *userdata, struct channel *channel, const char *reason)
{
	(void)userdata;
	(void)channel;
	fprintf(stderr, "the worker %s\n", reason);
}

static void bench_done(struct request *request, const struct wire_reply *reply, bool lost)
{
	struct transfer *transfer = container_of(request, struct transfer, request);
	struct bench *bench = transfer->bench;

	pthread_mutex_lock(&bench->lock);
	bench->free[transfer - bench->transfers] = true;
	bench->n_free++;
	bench->failed |= lost || reply->error;
	pthread_cond_signal(&bench->change);
	pthread_mutex_unlock(&bench->lock);
}

static unsigned int bench_wait(struct bench *bench, unsigned int n_free)
{
	unsigned int slot = 0;

	pthread_mutex_lock(&bench->lock);
	while (bench->n_free < n_free)
		pthread_cond_wait(&bench->change, &bench->lock);
	while (!bench->free[slot])
		slot++;
	pthread_mutex_unlock(&bench->lock);
	return slot;
}

static void bench_ask(struct bench *bench, unsigned int slot, struct wire_request request,
		      int fd)
{
	struct transfer *transfer = &bench->transfers[slot];

	pthread_mutex_lock(&bench->lock);
	bench->free[slot] = false;
	bench->n_free--;
	pthread_mutex_unlock(&bench->lock);
	transfer->bench = bench;
	transfer->request =
		(struct request){ .record = request, .fd = fd, .done = bench_done };
	channel_send(bench->channel, &transfer->request);
}

static struct wire_request request_of(uint32_t op, unsigned int slot, uint64_t length)
{
	return (struct wire_request){ .op = op,
				      .address = WIRE_DEVICE_BASE +
						 slot * (uint64_t)WIRE_TRANSFER_MAX,
				      .length = length,
				      .offset = staging_offset(slot) };
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double bench_latency(struct bench *bench, uint32_t op, uint64_t length)
{
	static double times[N_ROUNDS];

	for (unsigned int i = 0; i < N_ROUNDS; i++) {
		double begin = now();

		bench_ask(bench, 0, request_of(op, 0, length), -1);
		bench_wait(bench, N_SLOTS);
		times[i] = now() - begin;
	}
	qsort(times, N_ROUNDS, sizeof(*times), compare);
	return times[N_ROUNDS / 2];
}

static double bench_rate(struct bench *bench, uint32_t op, uint64_t length)
{
	double begin = now();

	for (unsigned int i = 0; i < N_ROUNDS; i++) {
		unsigned int slot = bench_wait(bench, 1);

		bench_ask(bench, slot, request_of(op, slot, length), -1);
	}
	bench_wait(bench, N_SLOTS);
	return (double)length * N_ROUNDS / (now() - begin) / 1e3;
}

static int physical_new(struct cuda_driver *driver, int *ret_fd)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUmemGenericAllocationHandle handle;
	int r;

	r = CUDA(driver, NULL, cuMemCreate, &handle, LENGTH, &prop, 0);
	if (r < 0)
		return r;
	return CUDA(driver, NULL, cuMemExportToShareableHandle, ret_fd, handle,
		    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

static int bench_start(struct bench *bench, const char *worker, const char *path)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	struct channel_config config = {
		.spawner = &bench->spawner,
		.program = worker,
		.driver = path,
		.name = "bench",
		.mover = true,
		.n_threads = 4,
		.ended = bench_ended,
	};
	struct cuda_driver *driver;
	int fd, r;

	r = cuda_driver_open(path, &driver, &why);
	if (r < 0) {
		fprintf(stderr, "%s\n", text_string(&why));
		return r;
	}
	r = physical_new(driver, &fd);
	if (r == 0)
		r = spawner_init(&bench->spawner);
	if (r == 0)
		r = staging_init(&bench->staging, "bench", N_SLOTS);
	if (r < 0)
		return r;
	config.staging_fd = bench->staging.fd;
	config.staging_size = bench->staging.size;
	r = channel_new(&bench->channel, &config);
	if (r < 0)
		return r;
	bench->n_free = N_SLOTS;
	memset(bench->free, true, sizeof(bench->free));
	bench_ask(bench, 0,
		  (struct wire_request){
			  .op = WIRE_MAP, .address = WIRE_DEVICE_BASE, .length = LENGTH },
		  fd);
	bench_wait(bench, N_SLOTS);
	return bench->failed ? -EIO : 0;
}

int main(int argc, char **argv)
{
	static const uint64_t lengths[] = { 64, 4096, 131072, 1048576 };
	static struct bench bench = {
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.change = PTHREAD_COND_INITIALIZER,
	};

	if (argc != 3) {
		fprintf(stderr, "Usage: %s WORKER DRIVER\n", argv[0]);
		return 2;
	}
	if (bench_start(&bench, argv[1], argv[2]) < 0)
		return 1;
	printf("%10s %12s %12s %12s %12s\n", "bytes", "write us", "read us",
	       "writes GB/s", "reads GB/s");
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
		printf("%10lu %12.1f %12.1f %12.2f %12.2f\n", lengths[i],
		       bench_latency(&bench, WIRE_WRITE, lengths[i]),
		       bench_latency(&bench, WIRE_READ, lengths[i]),
		       bench_rate(&bench, WIRE_WRITE, lengths[i]),
		       bench_rate(&bench, WIRE_READ, lengths[i]));
	bench.channel = channel_free(bench.channel);
	spawner_deinit(&bench.spawner);
	return bench.failed;
}

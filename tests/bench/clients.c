/* SPDX-License-Identifier: MIT */
/*
 * Lines a second that 1, 4, 16 and 64 clients write at once, each through a descriptor of
 * its own, compared with the same writes on a daemon that does nothing.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>

#define N_CLIENTS_MAX 64
#define ROUND_S	      0.2
#define CALLS	      20 /* between two looks at the clock */

/* Nothing is under way on the stream, so this asks no worker. */
static const char line[] = "default\n";

struct client {
	pthread_t thread;
	pthread_barrier_t *start;
	int fd;
	double rate; /* lines a second */
};

static void *client_write(void *userdata)
{
	struct client *client = userdata;
	double start, elapsed = 0;
	unsigned int n = 0;

	pthread_barrier_wait(client->start);
	for (start = now_s(); elapsed < ROUND_S; elapsed = now_s() - start) {
		for (unsigned int i = 0; i < CALLS; i++)
			command(client->fd, line);
		n += CALLS;
	}
	client->rate = n / elapsed;
	return NULL;
}

/* Returns: the lines a second of all clients together. */
static double measure(struct client *clients, unsigned int n)
{
	pthread_barrier_t start;
	double rate = 0;

	pthread_barrier_init(&start, NULL, n);
	for (unsigned int i = 0; i < n; i++) {
		clients[i].start = &start;
		errno = pthread_create(&clients[i].thread, NULL, client_write,
				       &clients[i]);
		if (errno)
			die("pthread_create: %m");
	}
	for (unsigned int i = 0; i < n; i++) {
		pthread_join(clients[i].thread, NULL);
		rate += clients[i].rate;
	}
	pthread_barrier_destroy(&start);
	return rate;
}

static void clients_open(struct client *clients, const struct mount *mount,
			 const char *path)
{
	for (unsigned int i = 0; i < N_CLIENTS_MAX; i++)
		clients[i].fd = mount_open(mount, path, O_RDWR);
}

int main(void)
{
	static const unsigned int counts[] = { 1, 4, 16, N_CLIENTS_MAX };
	static struct series lines[4], empty_lines[4];
	static struct client clients[N_CLIENTS_MAX], empty_clients[N_CLIENTS_MAX];
	size_t rounds = bench_number("BENCH_ROUNDS", 11);
	struct mount broker, empty;

	mount_broker(&broker);
	mount_empty(&empty);
	clients_open(clients, &broker, "control/synchronize");
	clients_open(empty_clients, &empty, "control");
	for (size_t round = 0; round < rounds; round++) {
		for (unsigned int i = 0; i < 4; i++) {
			series_add(&lines[i], measure(clients, counts[i]) / 1e3);
			series_add(&empty_lines[i],
				   measure(empty_clients, counts[i]) / 1e3);
		}
	}
	for (unsigned int i = 0; i < 4; i++) {
		char name[64];

		snprintf(name, sizeof(name), "lines, %u at once", counts[i]);
		series_print(name, &lines[i], "k/s");
		snprintf(name, sizeof(name), "empty daemon, %u at once", counts[i]);
		series_print(name, &empty_lines[i], "k/s");
		snprintf(name, sizeof(name), "lines, %u at once / empty", counts[i]);
		ratio_print(name, &lines[i], &empty_lines[i]);
	}
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * A broker and its successor: from the kill of a broker that has a keeper to the next
 * line that is answered, while 10, 10,000 and 100,000 allocations are held. Of 50
 * allocations one is host memory with a descriptor of its own, one is host memory that
 * shares a descriptor, all others are device memory.
 *
 * BENCH_ALLOCATIONS sets the largest number.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH_BYTES ((size_t)512 << 10)

/* Allocates names first to last (not itself) in large batches. */
static void allocate(const struct mount *mount, size_t first, size_t last)
{
	char *batch = malloc(BATCH_BYTES + 64), *end = batch;
	int alloc = mount_open(mount, "control/alloc", O_WRONLY);

	if (!batch)
		die("no memory");
	for (size_t i = first; i < last; i++) {
		if (i % 50 == 0)
			end += sprintf(end, "a%zu 4096 kind=host\n", i);
		else
			end += sprintf(end, "a%zu 256%s\n", i,
				       i % 50 == 1 ? " kind=host" : "");
		if ((size_t)(end - batch) < BATCH_BYTES && i + 1 < last)
			continue;
		command(alloc, batch);
		end = batch;
	}
	close(alloc);
	free(batch);
}

static pid_t broker_pid(const struct mount *mount)
{
	char text[16] = "";
	int fd = mount_open(mount, "pid", O_RDONLY);

	if (read(fd, text, sizeof(text) - 1) <= 0)
		die("reading pid: %m");
	close(fd);
	return (pid_t)strtol(text, NULL, 10);
}

/* Whether a line is answered. The next broker refuses the files of the last one. */
static bool is_answered(const struct mount *mount)
{
	static const char line[] = "default\n";
	int fd = mount_open(mount, "control/synchronize", O_WRONLY);
	ssize_t written = write(fd, line, strlen(line));

	if (written < 0 && errno != EIO && errno != ESTALE)
		die("synchronize: %m");
	close(fd);
	return written > 0;
}

static double measure(const struct mount *mount)
{
	pid_t pid = broker_pid(mount);
	double start = now_s();

	if (kill(pid, SIGKILL))
		die("killing broker %d: %m", pid);
	while (!is_answered(mount))
		;
	return (now_s() - start) * 1e3;
}

int main(void)
{
	static const size_t steps[] = { 10, 10000, 100000 };
	size_t most = bench_number("BENCH_ALLOCATIONS", 100000), n = 0;
	size_t rounds = bench_number("BENCH_ROUNDS", 11);
	static struct series times;
	struct mount broker;
	char name[64];

	mount_keeper(&broker);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && steps[i] <= most;
	     i++) {
		allocate(&broker, n, steps[i]);
		n = steps[i];
		times.n = 0;
		for (size_t round = 0; round < rounds; round++)
			series_add(&times, measure(&broker));
		snprintf(name, sizeof(name), "kill to the next line at %zu", n);
		series_print(name, &times, "ms");
		fflush(stdout);
	}
	return 0;
}

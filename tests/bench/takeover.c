/* SPDX-License-Identifier: MIT */
/*
 * A broker and its successor: from the kill of a broker that has a keeper to the next
 * line that is answered, while 10, 10,000 and 100,000 allocations are held. Of 50
 * allocations one is host memory with a descriptor of its own, one is host memory that
 * shares a descriptor, all others are device memory. With and without a standby in turns.
 *
 * The software GPU's cuInit takes no time, unlike a driver's:
 *
 *	GPUMEM_DRIVER=software:machine=slow:delay=cuInit@*=50ms
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
#define WAIT_S	    5
#define LOOK_US	    20000

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

static bool is_standby(pid_t pid)
{
	char path[64], name[32] = "";
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	length = fd < 0 ? 0 : read(fd, name, sizeof(name) - 1);
	if (fd >= 0)
		close(fd);
	return length > 0 && strcmp(name, "gpumemd-standby\n") == 0;
}

/* Returns: 0: there is none that is ready. */
static pid_t standby_pid(const struct mount *mount)
{
	char path[64], text[64] = "", *next = text, *end;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", mount->pid, mount->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		die("%s: %m", path);
	close(fd);
	for (;; next = end) {
		pid_t pid = (pid_t)strtol(next, &end, 10);

		if (end == next || is_standby(pid))
			return end == next ? 0 : pid;
	}
}

/* A build before the standby has none, however long one waits. */
static void wait_for_standby(const struct mount *mount)
{
	double until = now_s() + WAIT_S;

	while (!standby_pid(mount) && now_s() < until)
		usleep(LOOK_US);
}

static void kill_standby(const struct mount *mount)
{
	pid_t pid = standby_pid(mount);

	if (pid && kill(pid, SIGKILL))
		die("killing standby %d: %m", pid);
	while (standby_pid(mount))
		usleep(LOOK_US);
}

static double measure(const struct mount *mount, bool standby)
{
	pid_t pid = broker_pid(mount);
	double start;

	wait_for_standby(mount);
	if (!standby)
		kill_standby(mount);
	start = now_s();

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
	static struct series with, without;
	struct mount broker;
	char name[64];

	mount_keeper(&broker);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && steps[i] <= most;
	     i++) {
		allocate(&broker, n, steps[i]);
		n = steps[i];
		with.n = without.n = 0;
		for (size_t round = 0; round < rounds; round++) {
			series_add(&with, measure(&broker, true));
			series_add(&without, measure(&broker, false));
		}
		snprintf(name, sizeof(name), "kill to the next line at %zu", n);
		series_print(name, &with, "ms");
		snprintf(name, sizeof(name), "without a standby at %zu", n);
		series_print(name, &without, "ms");
		ratio_print("with / without", &with, &without);
		fflush(stdout);
	}
	return 0;
}

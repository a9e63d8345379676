/* SPDX-License-Identifier: MIT */
/*
 * cp of a file in tmpfs into `data` of device memory, one and four at once, and dd out of
 * `data`, compared with the same programs on a daemon that ignores the bytes.
 *
 * BENCH_SIZE sets the bytes of the file (at most 1 GiB, the size of the empty daemon's
 * `data`), BENCH_ROUNDS the rounds.
 */
#include "bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_WRITERS_MAX 4
#define BLOCK	      ((size_t)4 << 20)

enum {
	ONE,
	FOUR,
	READ,
	N_ARMS,
};

static const struct {
	const char *name;
	const char *program; /* %1$s: the file; %2$s: data; %3$zu: MiB */
	unsigned int n;
} arms[N_ARMS] = {
	[ONE] = { "cp, 1 writer", "exec cp %1$s %2$s", 1 },
	[FOUR] = { "cp, 4 writers", "exec cp %1$s %2$s", 4 },
	[READ] = { "dd, 1 reader",
		   "exec dd if=%2$s of=/dev/null bs=1M count=%3$zu status=none", 1 },
};

struct target {
	const char *name;
	char data[N_WRITERS_MAX][128];
	struct series series[N_ARMS];
};

static char file[64];

static pid_t start(unsigned int arm, const char *data, size_t size)
{
	char line[512];
	pid_t pid;

	snprintf(line, sizeof(line), arms[arm].program, file, data, size >> 20);
	pid = fork();
	if (pid < 0)
		die("fork: %m");
	if (!pid) {
		execl("/bin/sh", "sh", "-c", line, NULL);
		_exit(127);
	}
	return pid;
}

static void measure(struct target *target, unsigned int arm, size_t size)
{
	pid_t pids[N_WRITERS_MAX];
	double begin = now_s();
	int status;

	for (unsigned int i = 0; i < arms[arm].n; i++)
		pids[i] = start(arm, target->data[i], size);
	for (unsigned int i = 0; i < arms[arm].n; i++)
		if (waitpid(pids[i], &status, 0) < 0 || status)
			die("%s on the %s failed", arms[arm].name, target->name);
	series_add(&target->series[arm],
		   (double)size * arms[arm].n / (now_s() - begin) * 1e-9);
}

static void make_file(size_t size)
{
	char *block = calloc(1, BLOCK);
	int fd;

	snprintf(file, sizeof(file), "/dev/shm/bench-files-%d", getpid());
	fd = open(file, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0 || !block)
		die("%s: %m", file);
	memset(block, 7, BLOCK);
	for (size_t at = 0; at < size; at += BLOCK)
		if (write(fd, block, BLOCK) != (ssize_t)BLOCK)
			die("writing %s: %m", file);
	close(fd);
	free(block);
}

static void remove_file(void)
{
	unlink(file);
}

static void open_targets(struct target *ours, const struct mount *broker,
			 struct target *theirs, const struct mount *empty, size_t size)
{
	int alloc = mount_open(broker, "control/alloc", O_RDWR);
	char line[64];

	for (unsigned int i = 0; i < N_WRITERS_MAX; i++) {
		snprintf(line, sizeof(line), "x%u %zu\n", i, size);
		command(alloc, line);
		snprintf(ours->data[i], sizeof(ours->data[i]), "%s/allocations/x%u/data",
			 broker->path, i);
		snprintf(theirs->data[i], sizeof(theirs->data[i]), "%s/data",
			 empty->path);
	}
	close(alloc);
}

int main(void)
{
	static struct target ours = { .name = "broker" },
			     theirs = { .name = "empty daemon" };
	size_t size = bench_number("BENCH_SIZE", (size_t)256 << 20) / BLOCK * BLOCK;
	size_t rounds = bench_number("BENCH_ROUNDS", 9);
	struct mount broker, empty;
	char what[64];

	atexit(remove_file);
	make_file(size);
	mount_broker(&broker);
	mount_empty(&empty);
	open_targets(&ours, &broker, &theirs, &empty, size);
	for (size_t round = 0; round < rounds; round++) {
		for (unsigned int arm = 0; arm < N_ARMS; arm++) {
			measure(&ours, arm, size);
			measure(&theirs, arm, size);
		}
	}
	for (unsigned int arm = 0; arm < N_ARMS; arm++) {
		series_print(arms[arm].name, &ours.series[arm], "GB/s");
		snprintf(what, sizeof(what), "%s, empty daemon", arms[arm].name);
		series_print(what, &theirs.series[arm], "GB/s");
		snprintf(what, sizeof(what), "%s / empty", arms[arm].name);
		ratio_print(what, &ours.series[arm], &theirs.series[arm]);
	}
	return 0;
}

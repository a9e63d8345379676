/* SPDX-License-Identifier: MIT */
/*
 * Reading and writing `data` as dd does, 1 MiB at a time, compared with tmpfs and with a
 * daemon that ignores the bytes.
 *
 * BENCH_SIZE sets the bytes of a round, BENCH_ROUNDS the rounds.
 */
#include "bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCK ((size_t)1 << 20)

enum {
	DEVICE,
	HOST,
	TMPFS,
	EMPTY,
	N_TARGETS,
};

struct target {
	const char *name;
	int fd;
	struct series reads;
	struct series writes;
};

static struct target targets[N_TARGETS] = {
	[DEVICE] = { .name = "device" },
	[HOST] = { .name = "host" },
	[TMPFS] = { .name = "tmpfs" },
	[EMPTY] = { .name = "empty" },
};

static char *block;

static double gigabytes_per_second(size_t size, double start)
{
	return (double)size / (now_s() - start) * 1e-9;
}

static void measure_write(struct target *target, size_t size)
{
	double start = now_s();

	for (size_t offset = 0; offset < size; offset += BLOCK)
		if (pwrite(target->fd, block, BLOCK, (off_t)offset) != (ssize_t)BLOCK)
			die("writing %s: %m", target->name);
	series_add(&target->writes, gigabytes_per_second(size, start));
}

static void measure_read(struct target *target, size_t size)
{
	double start = now_s();

	for (size_t offset = 0; offset < size; offset += BLOCK)
		if (pread(target->fd, block, BLOCK, (off_t)offset) != (ssize_t)BLOCK)
			die("reading %s: %m", target->name);
	series_add(&target->reads, gigabytes_per_second(size, start));
}

static int open_tmpfs(size_t size)
{
	int fd = memfd_create("bench", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)size))
		die("tmpfs: %m");
	return fd;
}

static void open_targets(const struct mount *broker, const struct mount *empty,
			 size_t size)
{
	char line[128];
	int alloc = mount_open(broker, "control/alloc", O_RDWR);

	snprintf(line, sizeof(line), "device %zu\nhost %zu kind=host\n", size, size);
	command(alloc, line);
	targets[DEVICE].fd = mount_open(broker, "allocations/device/data", O_RDWR);
	targets[HOST].fd = mount_open(broker, "allocations/host/data", O_RDWR);
	targets[TMPFS].fd = open_tmpfs(size);
	targets[EMPTY].fd = mount_open(empty, "data", O_RDWR);
	close(alloc);
}

static void print(void)
{
	static const int ours[] = { DEVICE, HOST }, theirs[] = { TMPFS, EMPTY };
	char what[64];

	for (unsigned int i = 0; i < N_TARGETS; i++) {
		snprintf(what, sizeof(what), "write %s", targets[i].name);
		series_print(what, &targets[i].writes, "GB/s");
		snprintf(what, sizeof(what), "read %s", targets[i].name);
		series_print(what, &targets[i].reads, "GB/s");
	}
	for (unsigned int i = 0; i < 2; i++) {
		for (unsigned int j = 0; j < 2; j++) {
			struct target *a = &targets[ours[i]], *b = &targets[theirs[j]];

			snprintf(what, sizeof(what), "write %s / %s", a->name, b->name);
			ratio_print(what, &a->writes, &b->writes);
			snprintf(what, sizeof(what), "read %s / %s", a->name, b->name);
			ratio_print(what, &a->reads, &b->reads);
		}
	}
}

int main(void)
{
	size_t size = bench_number("BENCH_SIZE", (size_t)256 << 20) / BLOCK * BLOCK;
	size_t rounds = bench_number("BENCH_ROUNDS", 9);
	struct mount broker, empty;

	block = aligned_alloc(4096, BLOCK);
	if (!block)
		die("no memory");
	memset(block, 7, BLOCK);
	mount_broker(&broker);
	mount_empty(&empty);
	open_targets(&broker, &empty, size);

	/* the first round makes pages, and does not count */
	for (size_t round = 0; round <= rounds; round++) {
		for (unsigned int i = 0; i < N_TARGETS; i++) {
			struct target *target = &targets[(i + round) % N_TARGETS];

			measure_write(target, size);
			measure_read(target, size);
			if (!round)
				target->writes.n = target->reads.n = 0;
		}
	}
	print();
	free(block);
	for (unsigned int i = 0; i < N_TARGETS; i++)
		close(targets[i].fd);
	return 0;
}

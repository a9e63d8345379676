/* SPDX-License-Identifier: MIT */
/*
 * What --keep costs: lines, and pairs of alloc and free, of a broker under a keeper
 * beside one without, in turns; and the memory of the records for an allocation.
 */
#include "bench.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CALLS 500
#define PAIRS 50

enum { PLAIN, KEPT, N_BROKERS };

static const char *const names[N_BROKERS] = { [PLAIN] = "", [KEPT] = ", --keep" };

static struct {
	struct mount mount;
	int synchronize, alloc, release;
} brokers[N_BROKERS];

static struct series lines[N_BROKERS], cells[N_BROKERS], blocks[N_BROKERS];

/* Nothing is under way on the stream, so this asks no worker. */
static double measure_line(unsigned int which)
{
	double start = now_s();

	for (unsigned int i = 0; i < CALLS; i++)
		command(brokers[which].synchronize, "default\n");
	return (now_s() - start) / CALLS * 1e6;
}

static double measure_pair(unsigned int which, const char *line)
{
	double start = now_s();

	for (unsigned int i = 0; i < PAIRS; i++) {
		command(brokers[which].alloc, line);
		command(brokers[which].release, "x\n");
	}
	return (now_s() - start) / PAIRS * 1e6;
}

static void start(unsigned int which)
{
	struct mount *mount = &brokers[which].mount;

	if (which == KEPT)
		mount_keeper(mount);
	else
		mount_broker(mount);
	brokers[which].synchronize = mount_open(mount, "control/synchronize", O_WRONLY);
	brokers[which].alloc = mount_open(mount, "control/alloc", O_RDWR);
	brokers[which].release = mount_open(mount, "control/free", O_RDWR);
}

static void print(const char *what, const struct series series[N_BROKERS])
{
	char name[64];

	for (unsigned int i = 0; i < N_BROKERS; i++) {
		snprintf(name, sizeof(name), "%s%s", what, names[i]);
		series_print(name, &series[i], "us");
	}
	snprintf(name, sizeof(name), "%s: with --keep / without", what);
	ratio_print(name, &series[KEPT], &series[PLAIN]);
}

/* Of the memfd that the broker writes its records to. */
static double records_bytes(void)
{
	char path[512], target[64], pid[16] = "";
	int fd = mount_open(&brokers[KEPT].mount, "pid", O_RDONLY);
	const struct dirent *entry;
	struct stat stat;
	DIR *folder;

	if (read(fd, pid, sizeof(pid) - 1) <= 0)
		die("reading pid: %m");
	close(fd);
	snprintf(path, sizeof(path), "/proc/%.*s/fd", (int)strcspn(pid, "\n"), pid);
	folder = opendir(path);
	if (!folder)
		die("%s: %m", path);
	while ((entry = readdir(folder))) {
		ssize_t length = readlinkat(dirfd(folder), entry->d_name, target,
					    sizeof(target) - 1);

		target[length > 0 ? length : 0] = '\0';
		if (!strstr(target, "gpumem-records"))
			continue;
		if (fstatat(dirfd(folder), entry->d_name, &stat, 0) < 0)
			die("%s/%s: %m", path, entry->d_name);
		closedir(folder);
		return (double)stat.st_blocks * 512;
	}
	die("the broker has no records");
}

static void measure_memory(void)
{
	size_t n = bench_number("BENCH_ALLOCATIONS", 20000);
	static struct series memory;
	double before = records_bytes();
	char line[64];

	for (size_t i = 0; i < n; i++) {
		snprintf(line, sizeof(line), "allocation-%zu 4096\n", i);
		command(brokers[KEPT].alloc, line);
	}
	series_add(&memory, (records_bytes() - before) / (double)n);
	series_print("records of an allocation of 4K", &memory, "bytes");
}

int main(void)
{
	size_t rounds = bench_number("BENCH_ROUNDS", 21);

	for (unsigned int i = 0; i < N_BROKERS; i++)
		start(i);
	for (size_t round = 0; round < rounds; round++) {
		for (unsigned int i = 0; i < N_BROKERS; i++) {
			unsigned int which = (i + (unsigned int)round) % N_BROKERS;

			series_add(&lines[which], measure_line(which));
			series_add(&cells[which], measure_pair(which, "x 4096\n"));
			series_add(&blocks[which], measure_pair(which, "x 2097152\n"));
		}
	}
	print("a command on a held descriptor", lines);
	print("alloc and free device 4K", cells);
	print("alloc and free device 2M", blocks);
	measure_memory();
	return 0;
}

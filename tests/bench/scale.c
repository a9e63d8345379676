/* SPDX-License-Identifier: MIT */
/*
 * The cost of a thousand, a hundred thousand and a million live allocations: the time of
 * another alloc, of a look at an allocation and of a list of all, and the broker's memory
 * for each. The files of thirty thousand are asked for their sizes, too.
 *
 * BENCH_ALLOCATIONS sets the largest number. No user may have so many, so root allocates
 * for several.
 */
#include "bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE	    256
#define BATCH_BYTES ((size_t)512 << 10)
#define SAMPLES	    301
#define OWNER_MAX   200000
#define DU	    30000 /* allocations; du asks for each of their files */

static size_t memory_of(pid_t pid)
{
	unsigned long pages = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	file = fopen(path, "re");
	if (!file || fscanf(file, "%*u %lu", &pages) != 1)
		die("%s: %m", path);
	fclose(file);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Writes a batch as one of several users: the limit of each is 262144. */
static void command_of_owner(const struct mount *mount, size_t n, const char *batch)
{
	int alloc;

	if (geteuid() == 0)
		setfsuid((uid_t)(n / OWNER_MAX));
	alloc = mount_open(mount, "control/alloc", O_WRONLY);
	command(alloc, batch);
	close(alloc);
	setfsuid(geteuid());
}

/* Allocates NAMES first to last (not itself) in large batches. */
static void allocate(const struct mount *mount, size_t first, size_t last)
{
	char *batch = malloc(BATCH_BYTES + 64), *end = batch;

	if (!batch)
		die("no memory");
	for (size_t i = first; i < last; i++) {
		end += sprintf(end, "a%zu %d\n", i, SIZE);
		if ((size_t)(end - batch) < BATCH_BYTES && i + 1 < last &&
		    (i + 1) % OWNER_MAX)
			continue;
		command_of_owner(mount, i, batch);
		end = batch;
	}
	free(batch);
}

static void measure_one_more(int alloc, int release, struct series *series)
{
	char line[64];

	for (unsigned int i = 0; i < SAMPLES; i++) {
		double start;

		snprintf(line, sizeof(line), "more %d\n", SIZE);
		start = now_s();
		command(alloc, line);
		series_add(series, (now_s() - start) * 1e6);
		command(release, "more\n");
	}
}

static void measure_look(const struct mount *mount, size_t n, struct series *series)
{
	char path[128];
	struct stat stat_;

	for (unsigned int i = 0; i < SAMPLES; i++) {
		double start;

		snprintf(path, sizeof(path), "%s/allocations/a%zu", mount->path,
			 (size_t)random() % n);
		start = now_s();
		if (stat(path, &stat_))
			die("%s: %m", path);
		series_add(series, (now_s() - start) * 1e6);
	}
}

/* The time of a program that walks the folder. */
static double measure_walk(const struct mount *mount, const char *program)
{
	char line[128];
	double start = now_s();

	snprintf(line, sizeof(line), "exec %s %s/allocations >/dev/null", program,
		 mount->path);
	if (system(line))
		die("%s failed", line);
	return now_s() - start;
}

__attribute__((format(printf, 1, 0))) static void
print(const char *format, size_t n, const struct series *series, const char *unit)
{
	char name[64];

	snprintf(name, sizeof(name), format, n);
	series_print(name, series, unit);
}

static void measure(const struct mount *mount, int alloc, int release, size_t n,
		    size_t memory_before)
{
	static struct series more, look, list, sizes, memory;

	more.n = look.n = list.n = sizes.n = memory.n = 0;
	measure_one_more(alloc, release, &more);
	measure_look(mount, n, &look);
	for (size_t i = 0; i < bench_number("BENCH_ROUNDS", 3); i++) {
		series_add(&list, measure_walk(mount, "ls"));
		if (n == DU)
			series_add(&sizes, measure_walk(mount, "du -s"));
	}
	series_add(&memory, (double)(memory_of(mount->pid) - memory_before) / (double)n);
	print("one more at %zu", n, &more, "us");
	print("look one up at %zu", n, &look, "us");
	print("ls of %zu", n, &list, "s");
	if (sizes.n)
		print("du of %zu", n, &sizes, "s");
	print("memory of each at %zu", n, &memory, "bytes");
	fflush(stdout);
}

int main(void)
{
	static const size_t steps[] = { 1000, 30000, 100000, 1000000 };
	size_t most = bench_number("BENCH_ALLOCATIONS", 1000000);
	struct mount broker;
	size_t n = 0, before;
	int alloc, release;

	mount_broker(&broker);
	alloc = mount_open(&broker, "control/alloc", O_RDWR);
	release = mount_open(&broker, "control/free", O_RDWR);
	command(alloc, "first 256\n");
	before = memory_of(broker.pid);
	for (unsigned int i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		double start = now_s();

		if (steps[i] > most)
			break;
		allocate(&broker, n, steps[i]);
		printf("allocated %zu in %.2f s, %.2f us each\n", steps[i] - n,
		       now_s() - start, (now_s() - start) / (double)(steps[i] - n) * 1e6);
		n = steps[i];
		measure(&broker, alloc, release, n, before);
	}
	close(alloc);
	close(release);
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * Small transfers through open descriptors: a fill, a read and a write of 16 KiB of
 * device memory, each up to its end, compared with a write of a line dropped by a daemon.
 * A write is answered before the bytes are on the device.
 */
#include "bench.h"

#include <fcntl.h>
#include <unistd.h>

#define CALLS 300
#define SIZE  16384

static char bytes[SIZE];

static double measure_line(int fd, const char *line)
{
	double start = now_s();

	for (unsigned int i = 0; i < CALLS; i++)
		command(fd, line);
	return (now_s() - start) / CALLS * 1e6;
}

static double measure_read(int fd)
{
	double start = now_s();

	for (unsigned int i = 0; i < CALLS; i++)
		if (pread(fd, bytes, SIZE, 0) != SIZE)
			die("reading data: %m");
	return (now_s() - start) / CALLS * 1e6;
}

static double measure_write(int fd)
{
	double start = now_s();

	for (unsigned int i = 0; i < CALLS; i++)
		if (pwrite(fd, bytes, SIZE, 0) != SIZE)
			die("writing data: %m");
	return (now_s() - start) / CALLS * 1e6;
}

int main(void)
{
	static struct series fills, reads, writes, empties;
	size_t rounds = bench_number("BENCH_ROUNDS", 21);
	struct mount broker, empty;
	int alloc, fill, data, drop;

	mount_broker(&broker);
	mount_empty(&empty);
	alloc = mount_open(&broker, "control/alloc", O_RDWR);
	command(alloc, "x 16K\n");
	fill = mount_open(&broker, "control/fill", O_RDWR);
	data = mount_open(&broker, "allocations/x/data", O_RDWR);
	drop = mount_open(&empty, "control", O_RDWR);

	for (size_t round = 0; round < rounds; round++) {
		series_add(&fills, measure_line(fill, "x f32:1.5\n"));
		series_add(&reads, measure_read(data));
		series_add(&writes, measure_write(data));
		series_add(&empties, measure_line(drop, "x f32:1.5\n"));
	}
	series_print("fill of 16 KiB, by a write", &fills, "us");
	series_print("pread of 16 KiB", &reads, "us");
	series_print("pwrite of 16 KiB", &writes, "us");
	series_print("a write, empty daemon", &empties, "us");
	ratio_print("fill / empty write", &fills, &empties);
	ratio_print("pread / empty write", &reads, &empties);
	ratio_print("pwrite / empty write", &writes, &empties);
	close(alloc);
	close(fill);
	close(data);
	close(drop);
	return 0;
}

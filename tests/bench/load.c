/* SPDX-License-Identifier: MIT */
/*
 * A file into device and host memory by control/load, and back by control/save, compared
 * with a program that reads the file and copies each piece (pread and memcpy, one thread)
 * and with `cp` into `data`.
 *
 * BENCH_SIZE sets the bytes of the file, BENCH_FOLDER where the file is (/dev/shm),
 * BENCH_ROUNDS the rounds. With BENCH_COLD=1 the file is dropped from the page cache
 * before each measurement.
 */
#include "bench.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK ((size_t)4 << 20)

extern char **environ;

enum {
	LOAD_DEVICE,
	LOAD_HOST,
	SAVE_DEVICE,
	COPY,
	CP,
	N_ARMS,
};

static const char *const names[N_ARMS] = {
	[LOAD_DEVICE] = "load device", [LOAD_HOST] = "load host",
	[SAVE_DEVICE] = "save device", [COPY] = "pread and memcpy",
	[CP] = "cp into data",
};

static struct series series[N_ARMS];
static char file[256], saved[264], data[128];
static int load_fd, save_fd;
static char *memory, *block;
static size_t size;

static void line(int fd, const char *name, const char *path)
{
	char text[512];

	snprintf(text, sizeof(text), "%s path=%s\n", name, path);
	command(fd, text);
}

static void copy(void)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		die("%s: %m", file);
	for (size_t at = 0; at < size; at += BLOCK) {
		if (pread(fd, block, BLOCK, (off_t)at) != (ssize_t)BLOCK)
			die("reading %s: %m", file);
		memcpy(memory + at, block, BLOCK);
	}
	close(fd);
}

static void cp(void)
{
	char *arguments[] = { "cp", file, data, NULL };
	int status;
	pid_t pid;

	if (posix_spawnp(&pid, "cp", NULL, NULL, arguments, environ))
		die("cp can't be started");
	if (waitpid(pid, &status, 0) < 0 || status)
		die("cp failed");
}

static void drop_cache(void)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fdatasync(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED))
		die("%s: %m", file);
	close(fd);
}

static void measure(unsigned int arm)
{
	double start;

	if (bench_number("BENCH_COLD", 0))
		drop_cache();
	start = now_s();
	switch (arm) {
	case LOAD_DEVICE:
		line(load_fd, "device", file);
		break;
	case LOAD_HOST:
		line(load_fd, "host", file);
		break;
	case SAVE_DEVICE:
		line(save_fd, "device", saved);
		break;
	case COPY:
		copy();
		break;
	default:
		cp();
	}
	series_add(&series[arm], (double)size / (now_s() - start) * 1e-9);
	unlink(saved);
}

static void make_file(void)
{
	const char *folder = getenv("BENCH_FOLDER");
	int fd;

	snprintf(file, sizeof(file), "%.200s/bench-load-%d", folder ?: "/dev/shm",
		 getpid());
	snprintf(saved, sizeof(saved), "%s.saved", file);
	fd = open(file, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0)
		die("%s: %m", file);
	memset(block, 7, BLOCK);
	for (size_t at = 0; at < size; at += BLOCK)
		if (write(fd, block, BLOCK) != (ssize_t)BLOCK)
			die("writing %s: %m", file);
	close(fd);
}

static void remove_file(void)
{
	unlink(file);
	unlink(saved);
}

static void open_all(struct mount *broker)
{
	char text[128];
	int fd;

	mount_broker(broker);
	fd = mount_open(broker, "control/alloc", O_RDWR);
	snprintf(text, sizeof(text), "device %zu\nhost %zu kind=host\n", size, size);
	command(fd, text);
	close(fd);
	snprintf(data, sizeof(data), "%s/allocations/device/data", broker->path);
	load_fd = mount_open(broker, "control/load", O_RDWR);
	save_fd = mount_open(broker, "control/save", O_RDWR);
}

int main(void)
{
	size_t rounds = bench_number("BENCH_ROUNDS", 9);
	struct mount broker;
	char what[64];

	size = bench_number("BENCH_SIZE", (size_t)1 << 30) / BLOCK * BLOCK;
	block = malloc(BLOCK);
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (!block || memory == MAP_FAILED)
		die("no memory");
	atexit(remove_file);
	make_file();
	open_all(&broker);
	/* the first round starts the worker and makes pages, and does not count */
	for (size_t round = 0; round <= rounds; round++) {
		for (unsigned int i = 0; i < N_ARMS; i++) {
			unsigned int arm = (unsigned int)((i + round) % N_ARMS);

			measure(arm);
			if (!round)
				series[arm].n = 0;
		}
	}
	for (unsigned int i = 0; i < N_ARMS; i++)
		series_print(names[i], &series[i], "GB/s");
	for (unsigned int i = 0; i < COPY; i++) {
		for (unsigned int j = COPY; j < N_ARMS; j++) {
			snprintf(what, sizeof(what), "%s / %s", names[i], names[j]);
			ratio_print(what, &series[i], &series[j]);
		}
	}
	close(load_fd);
	close(save_fd);
	free(block);
	return 0;
}

/* SPDX-License-Identifier: MIT */
#include "bench.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOUNTS_MAX    4
#define START_SECONDS 30

static struct mount mounts[MOUNTS_MAX]; /* copies: they outlive main() */
static size_t n_mounts;

double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void die(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

size_t bench_number(const char *name, size_t otherwise)
{
	const char *value = getenv(name);

	return value ? strtoull(value, NULL, 0) : otherwise;
}

void series_add(struct series *series, double value)
{
	if (series->n == BENCH_ROUNDS_MAX)
		die("more than %d rounds", BENCH_ROUNDS_MAX);
	series->values[series->n++] = value;
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static struct series series_sorted(const struct series *series)
{
	struct series sorted = *series;

	qsort(sorted.values, sorted.n, sizeof(sorted.values[0]), compare);
	return sorted;
}

double series_median(const struct series *series)
{
	return series_sorted(series).values[series->n / 2];
}

void series_print(const char *name, const struct series *series, const char *unit)
{
	struct series sorted = series_sorted(series);

	printf("%-40s %10.2f %-6s [%.2f..%.2f]\n", name, sorted.values[sorted.n / 2],
	       unit, sorted.values[0], sorted.values[sorted.n - 1]);
}

void ratio_print(const char *what, const struct series *ours, const struct series *theirs)
{
	printf("%-40s %10.2f\n", what, series_median(ours) / series_median(theirs));
	fflush(stdout);
}

static const char *environment(const char *name)
{
	const char *value = getenv(name);

	if (!value || !*value)
		die("%s is not set: run this with meson test --benchmark", name);
	return value;
}

const char *bench_driver(void)
{
	static char driver[128];
	const char *given = getenv("GPUMEM_DRIVER");

	if (given && *given && strcmp(given, "software"))
		return given;
	snprintf(driver, sizeof(driver), "software:memory=8G:machine=bench-%d", getpid());
	return driver;
}

const char *bench_library(void)
{
	const char *given = getenv("GPUMEM_DRIVER");

	if (given && *given && strncmp(given, "software", strlen("software")))
		return given;
	setenv("GPUMEM_SOFTGPU", "memory=8G:machine=bench-direct", 0);
	return environment("GPUMEM_LIBRARY");
}

static void mounts_end(void)
{
	while (n_mounts) {
		const struct mount *mount = &mounts[--n_mounts];

		kill(mount->pid, SIGTERM);
		waitpid(mount->pid, NULL, 0);
		rmdir(mount->path);
	}
}

static void mount_start(struct mount *mount, const char *const *arguments,
			const char *proof)
{
	double deadline = now_s() + START_SECONDS;
	char path[128];
	pid_t parent = getpid();

	mount->pid = fork();
	if (mount->pid < 0)
		die("fork: %m");
	if (!mount->pid) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != parent)
			_exit(1);
		execv(arguments[0], (char **)arguments);
		die("%s: %m", arguments[0]);
	}
	if (!n_mounts)
		atexit(mounts_end);
	mounts[n_mounts++] = *mount;

	snprintf(path, sizeof(path), "%s/%s", mount->path, proof);
	while (access(path, R_OK)) {
		if (waitpid(mount->pid, NULL, WNOHANG) || now_s() > deadline) {
			n_mounts--;
			die("%s did not start", arguments[0]);
		}
		usleep(1000);
	}
}

static void mount_point(struct mount *mount)
{
	strcpy(mount->path, "/tmp/gpumem-bench.XXXXXX");
	if (!mkdtemp(mount->path))
		die("%s: %m", mount->path);
}

void mount_broker(struct mount *mount)
{
	mount_point(mount);
	mount_start(mount,
		    (const char *[]){ environment("GPUMEMD"), "-f", "--driver",
				      bench_driver(), mount->path, NULL },
		    "version");
}

void mount_keeper(struct mount *mount)
{
	mount_point(mount);
	mount_start(mount,
		    (const char *[]){ environment("GPUMEMD"), "-f", "--keep", "--driver",
				      bench_driver(), mount->path, NULL },
		    "version");
}

void mount_empty(struct mount *mount)
{
	mount_point(mount);
	mount_start(
		mount,
		(const char *[]){ environment("GPUMEM_EMPTY"), "-f", mount->path, NULL },
		"status");
}

int mount_open(const struct mount *mount, const char *path, int flags)
{
	char full[256];
	int fd;

	snprintf(full, sizeof(full), "%s/%s", mount->path, path);
	fd = open(full, flags | O_CLOEXEC);
	if (fd < 0)
		die("%s: %m", full);
	return fd;
}

void command(int fd, const char *text)
{
	ssize_t length = (ssize_t)strlen(text);
	char sentence[512] = "";

	if (write(fd, text, (size_t)length) == length)
		return;
	if (read(fd, sentence, sizeof(sentence) - 1) < 0)
		sentence[0] = '\0';
	die("%.60s: %s", text, sentence);
}

/* SPDX-License-Identifier: MIT */
/*
 * A cheap command through an open descriptor, and a read of `status`, compared with the
 * same system calls on a daemon that does nothing. Also the command through a shell's
 * `>`, compared with an open(2) without O_TRUNC.
 */
#include "bench.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define CALLS 500

/* Nothing is under way on the stream, so this asks no worker. */
static const char line[] = "default\n";

static double measure_command(int fd)
{
	double start = now_s();

	for (unsigned int i = 0; i < CALLS; i++)
		if (write(fd, line, strlen(line)) != (ssize_t)strlen(line))
			die("writing a command: %m");
	return (now_s() - start) / CALLS * 1e6;
}

static double measure_open(const struct mount *mount, int flags)
{
	double start = now_s();

	for (unsigned int i = 0; i < CALLS; i++) {
		int fd = mount_open(mount, "control/synchronize", O_WRONLY | flags);

		if (write(fd, line, strlen(line)) != (ssize_t)strlen(line))
			die("writing a command: %m");
		close(fd);
	}
	return (now_s() - start) / CALLS * 1e6;
}

static double measure_status(const struct mount *mount)
{
	double start = now_s();
	char text[4096];

	for (unsigned int i = 0; i < CALLS; i++) {
		int fd = mount_open(mount, "status", O_RDONLY);

		if (read(fd, text, sizeof(text)) <= 0)
			die("reading status: %m");
		close(fd);
	}
	return (now_s() - start) / CALLS * 1e6;
}

int main(void)
{
	static struct series commands, empty_commands, redirections, opens;
	static struct series statuses, empty_statuses;
	size_t rounds = bench_number("BENCH_ROUNDS", 41);
	struct mount broker, empty;
	int control, empty_control;

	mount_broker(&broker);
	mount_empty(&empty);
	control = mount_open(&broker, "control/synchronize", O_RDWR);
	empty_control = mount_open(&empty, "control", O_RDWR);

	for (size_t round = 0; round < rounds; round++) {
		series_add(&commands, measure_command(control));
		series_add(&empty_commands, measure_command(empty_control));
		series_add(&redirections, measure_open(&broker, O_TRUNC));
		series_add(&opens, measure_open(&broker, 0));
		series_add(&statuses, measure_status(&broker));
		series_add(&empty_statuses, measure_status(&empty));
	}
	series_print("command on a held descriptor", &commands, "us");
	series_print("the same write, empty daemon", &empty_commands, "us");
	series_print("open with O_TRUNC, command, close", &redirections, "us");
	series_print("open without, command, close", &opens, "us");
	series_print("open, read, close status", &statuses, "us");
	series_print("the same, empty daemon", &empty_statuses, "us");
	ratio_print("command / empty", &commands, &empty_commands);
	ratio_print("with O_TRUNC / without", &redirections, &opens);
	ratio_print("status / empty", &statuses, &empty_statuses);
	close(control);
	close(empty_control);
	return 0;
}

/* SPDX-License-Identifier: MIT */
#include "recount.h"

#include "base/clock.h"
#include "thread.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

/* A process of root may be stopped. */
#define PATIENCE_NS 1000000000u
#define LOOK_NS	    200000

/* Counts of all root's processes together take a fifth of the time at most. */
#define RESTS 4

static struct {
	struct account own;
	int ask_fd; /* to read, and to write, so that a read never finds the end */
	int counted_fd;
	int counting_fd;
} server;

static uint64_t counted_read(int fd)
{
	uint64_t counted;

	return pread(fd, &counted, sizeof(counted), 0) == sizeof(counted) ? counted : 0;
}

static void counted_write(uint64_t counted)
{
	(void)!pwrite(server.counted_fd, &counted, sizeof(counted), 0);
}

/* With the lock of `counting`. Root's calls go on meanwhile (account_sweep()). */
static void count(void)
{
	uint64_t counted = counted_read(server.counted_fd) | 1;

	counted_write(counted);
	account_sweep(&server.own);
	counted_write(counted + 1);
}

static void sleep_ns(uint64_t ns)
{
	const struct timespec time = {
		.tv_sec = (time_t)(ns / 1000000000u),
		.tv_nsec = (long)(ns % 1000000000u),
	};

	nanosleep(&time, NULL);
}

static void *serve(void *unused)
{
	char asked[4096];
	uint64_t begin;

	while (read(server.ask_fd, asked, sizeof(asked)) > 0) {
		if (flock(server.counting_fd, LOCK_EX) < 0)
			continue;
		begin = clock_ns(CLOCK_MONOTONIC);
		count();
		sleep_ns(RESTS * (clock_ns(CLOCK_MONOTONIC) - begin));
		flock(server.counting_fd, LOCK_UN);
	}
	return unused;
}

int recount_serve(int machine_fd, const struct account *own)
{
	_cleanup_close_ int ask = -1, counted = -1, counting = -1;
	int r;

	if (mkfifoat(own->fd, RECOUNT_ASK, 0600) < 0 && errno != EEXIST)
		return -errno;
	ask = openat(own->fd, RECOUNT_ASK, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (ask < 0)
		return -errno;
	counted = account_file(own->fd, RECOUNT_COUNTED, O_RDWR | O_CREAT);
	if (counted < 0)
		return counted;
	counting = account_file(own->fd, RECOUNT_COUNTING, O_RDWR | O_CREAT);
	if (counting < 0)
		return counting;
	if (fchmod(ask, 0622) < 0 || fchmod(counted, 0644) < 0)
		return -errno;
	r = account_open_locked(machine_fd, own->name, 0, &server.own);
	if (r < 0)
		return r;
	account_unlock(&server.own);
	server.ask_fd = ask;
	server.counted_fd = counted;
	server.counting_fd = counting;
	r = thread_start(serve);
	if (r < 0) {
		account_close(&server.own);
		return r;
	}
	(void)take_fd(&ask);
	(void)take_fd(&counted);
	(void)take_fd(&counting);
	return 0;
}

/* Asks the processes of root that use this account. */
static void account_ask(int account_fd)
{
	const uint64_t end = clock_ns(CLOCK_MONOTONIC) + PATIENCE_NS;
	_cleanup_close_ int counted = account_file(account_fd, RECOUNT_COUNTED, O_RDONLY);
	_cleanup_close_ int ask = openat(account_fd, RECOUNT_ASK,
					 O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	uint64_t before;

	/* Nobody has the pipe open to read: no process of root is there. */
	if (counted < 0 || ask < 0)
		return;
	/* A count under way may have passed what was let go a moment ago. */
	before = align_up(counted_read(counted), 2);
	/* A full pipe asks as well. */
	if (write(ask, "", 1) < 0 && errno != EAGAIN)
		return;
	while (counted_read(counted) < before + 2 && clock_ns(CLOCK_MONOTONIC) < end)
		sleep_ns(LOOK_NS);
}

void recount_ask(int machine_fd)
{
	struct accounts accounts;
	const char *name;
	uid_t uid;

	accounts_open(&accounts, machine_fd);
	while ((name = accounts_next(&accounts, &uid))) {
		_cleanup_close_ int fd =
			uid == 0 ? account_directory(machine_fd, name, O_PATH) : -1;

		if (fd >= 0)
			account_ask(fd);
	}
	accounts_close(&accounts);
}

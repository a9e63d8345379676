/* SPDX-License-Identifier: MIT */
#include "others.h"

#include "account.h"
#include "base/clock.h"
#include "remains.h"
#include "softgpu/managed/residency.h"
#include "thread.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

/* How long a call of the driver waits for the thread, from when the thread began. */
#define PATIENCE_MS 1000

/* Copied for the thread: who asked may have given up. */
struct task {
	int machine_fd; /* -1: clear the remains in all machines */
	int device;
	uint64_t claimed;
	char own[32];
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pid_t pid; /* of the process that has the thread: a child of fork() has none */
	struct task task;
	bool is_busy;
	int64_t begun_ms;
} server;

static void others_count(const struct task *task, const char *name)
{
	struct account account;

	if (account_open_locked(task->machine_fd, name, LOCK_NB, &account) < 0)
		return;
	account_scan(&account);
	account_close(&account);
}

/* Counts. Returns: the bytes of the device in use, with those claimed. */
static uint64_t others_used(const struct task *task)
{
	uint64_t used = task->claimed;
	struct accounts accounts;
	struct sums sums;
	const char *name;

	accounts_open(&accounts, task->machine_fd);
	while ((name = accounts_next(&accounts, NULL))) {
		if (!strcmp(name, task->own))
			continue;
		others_count(task, name);
		if (account_look(task->machine_fd, name, &sums))
			sums_add(&used, sums.used[task->device]);
	}
	accounts_close(&accounts);
	return used;
}

/* The pages of all accounts. Their order needs no lock, and may be a little old. */
static void all_look(const struct task *task, struct residency_ages *ages)
{
	struct accounts accounts;
	const char *name;

	accounts_open(&accounts, task->machine_fd);
	while ((name = accounts_next(&accounts, NULL))) {
		_cleanup_close_ int fd =
			account_directory(task->machine_fd, name, O_RDONLY);

		if (fd >= 0)
			residency_look(ages, fd, task->device);
	}
	accounts_close(&accounts);
}

static uint64_t other_evict(const struct task *task, const char *name, uint64_t bytes,
			    struct residency_until until)
{
	struct account account;
	uint64_t evicted;

	if (account_open_locked(task->machine_fd, name, LOCK_NB, &account) < 0)
		return 0;
	evicted = residency_evict(task->device, bytes, until, &account);
	account_publish(&account);
	account_close(&account);
	return evicted;
}

static void others_evict(const struct task *task, uint64_t bytes,
			 struct residency_until until)
{
	struct accounts accounts;
	const char *name;

	accounts_open(&accounts, task->machine_fd);
	while ((name = accounts_next(&accounts, NULL)))
		if (strcmp(name, task->own) != 0)
			bytes -= MIN(bytes, other_evict(task, name, bytes, until));
	accounts_close(&accounts);
}

static void correct(const struct task *task)
{
	const uint64_t used = others_used(task);
	struct residency_ages ages = RESIDENCY_AGES_INIT;
	struct residency_until until;

	if (used <= options.memory)
		return;
	all_look(task, &ages);
	if (residency_choose(&ages, used - options.memory, &until))
		others_evict(task, used - options.memory, until);
	residency_ages_free(&ages);
}

static void *serve(void *unused)
{
	struct task task;

	pthread_mutex_lock(&server.lock);
	while (true) {
		while (!server.is_busy)
			pthread_cond_wait(&server.changed, &server.lock);
		task = server.task;
		pthread_mutex_unlock(&server.lock);
		if (task.machine_fd < 0)
			remains_clear();
		else
			correct(&task);
		pthread_mutex_lock(&server.lock);
		server.is_busy = false;
		pthread_cond_broadcast(&server.changed);
	}
	return unused;
}

int others_start(void)
{
	int r;

	if (server.pid == getpid())
		return 0;
	/* A parent's thread may have had the lock. */
	pthread_mutex_init(&server.lock, NULL);
	clock_cond_init(&server.changed);
	server.is_busy = false;
	r = thread_start(serve);
	if (r >= 0)
		server.pid = getpid();
	return r;
}

/* Under the lock. Returns: false when the thread has not come back in time. */
static bool is_back(void)
{
	const int64_t until_ms = server.begun_ms + PATIENCE_MS;

	while (server.is_busy &&
	       clock_cond_wait(&server.changed, &server.lock, until_ms) == 0)
		continue;
	return !server.is_busy;
}

static void ask(const struct task *task)
{
	pthread_mutex_lock(&server.lock);
	/* Busy: who asked before has given up. */
	if (is_back()) {
		server.task = *task;
		server.is_busy = true;
		server.begun_ms = clock_ms();
		pthread_cond_broadcast(&server.changed);
		(void)is_back();
	}
	pthread_mutex_unlock(&server.lock);
}

void others_clear(void)
{
	ask(&(struct task){ .machine_fd = -1 });
}

void others_correct(int machine_fd, const char *own, int device, uint64_t claimed)
{
	struct task task = {
		.machine_fd = machine_fd,
		.device = device,
		.claimed = claimed,
	};

	snprintf(task.own, sizeof(task.own), "%s", own);
	ask(&task);
}

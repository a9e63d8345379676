/* SPDX-License-Identifier: MIT */
#include "truncated.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAPPINGS_MAX 65536 /* vm.max_map_count allows no more */
#define PAGE	     4096

struct mapping {
	uint64_t start; /* atomic; 0: the place is free */
	uint64_t size;
	int fd;
};

static struct mapping mappings[MAPPINGS_MAX];
static size_t n_places; /* atomic: places behind these are free */
static struct sigaction former;

static struct mapping *mapping_at(uint64_t start)
{
	size_t n = __atomic_load_n(&n_places, __ATOMIC_ACQUIRE);

	for (size_t i = 0; i < n; i++) {
		if (__atomic_load_n(&mappings[i].start, __ATOMIC_ACQUIRE) == start)
			return &mappings[i];
	}
	return NULL;
}

/* The mapping around an address. NULL: none. */
static const struct mapping *mapping_around(uint64_t address)
{
	size_t n = __atomic_load_n(&n_places, __ATOMIC_ACQUIRE);

	for (size_t i = 0; i < n; i++) {
		uint64_t start = __atomic_load_n(&mappings[i].start, __ATOMIC_ACQUIRE);

		if (start && address >= start && address - start < mappings[i].size)
			return &mappings[i];
	}
	return NULL;
}

/*
 * Gives the file its size back, unless another thread has done so. An access to a full
 * file system fails in the same way, and is not repaired: there the page can't be made.
 * The file may be short again before the access is tried again, and is repaired again.
 */
static bool repair(uint64_t address)
{
	const struct mapping *mapping = mapping_around(address);
	struct stat stat;
	uint64_t offset;

	if (!mapping || fstat(mapping->fd, &stat) < 0)
		return false;
	offset = (address - mapping->start) / PAGE * PAGE;
	return ((uint64_t)stat.st_size >= mapping->size ||
		ftruncate(mapping->fd, (off_t)mapping->size) == 0) &&
	       fallocate(mapping->fd, 0, (off_t)offset, PAGE) == 0;
}

static void pass_on(int signal, siginfo_t *info, void *context)
{
	if (former.sa_flags & SA_SIGINFO) {
		former.sa_sigaction(signal, info, context);
		return;
	}
	if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN) {
		former.sa_handler(signal);
		return;
	}
	/* The access comes again, and ends the process. */
	(void)sigaction(signal, &former, NULL);
}

static void on_bus_error(int signal, siginfo_t *info, void *context)
{
	int error = errno;

	if (info->si_code != BUS_ADRERR || !repair((uint64_t)(uintptr_t)info->si_addr))
		pass_on(signal, info, context);
	errno = error;
}

static void install(void)
{
	struct sigaction action = { .sa_flags = SA_SIGINFO | SA_ONSTACK };

	action.sa_sigaction = on_bus_error;
	sigemptyset(&action.sa_mask);
	(void)sigaction(SIGBUS, &action, &former);
}

void truncated_watch(uint64_t start, uint64_t size, int fd)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct mapping *mapping = mapping_at(0);
	size_t n = __atomic_load_n(&n_places, __ATOMIC_RELAXED);

	pthread_once(&once, install);
	if (!mapping && n < MAPPINGS_MAX)
		mapping = &mappings[n];
	if (!mapping)
		return;
	mapping->size = size;
	mapping->fd = fd;
	__atomic_store_n(&mapping->start, start, __ATOMIC_RELEASE);
	if (mapping == &mappings[n])
		__atomic_store_n(&n_places, n + 1, __ATOMIC_RELEASE);
}

void truncated_forget(uint64_t start)
{
	struct mapping *mapping = mapping_at(start);

	if (mapping)
		__atomic_store_n(&mapping->start, 0, __ATOMIC_RELEASE);
}

/* SPDX-License-Identifier: MIT */
/*
 * The staging area: a sealed memfd, its slots, and a stack of the free slots.
 *
 * The seals make sharing safe: no worker can take pages away from the broker's mapping.
 * The worker can write to the pages at any time, so a reader of a slot must accept any
 * bytes, changing at any time.
 *
 * The slot released last is reused first: its pages are still in the caches. The pages of
 * a slot are made when the slot is taken for the first time, so that the start of a
 * broker does not wait for all of them.
 */
#include "channel/staging.h"

#include "base/def.h"
#include "base/huge_pages.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

static int staging_open(const char *name, uint64_t size)
{
	_cleanup_close_ int fd = -1;

	fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) < 0)
		return -errno;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	return take_fd(&fd);
}

int staging_init(struct staging *staging, const char *name, unsigned int n_slots)
{
	uint64_t size = (uint64_t)n_slots * STAGING_SLOT;
	_cleanup_free_ unsigned int *list = NULL;
	_cleanup_close_ int fd = -1;
	void *memory;

	list = calloc(n_slots, sizeof(*list));
	if (!list)
		return -ENOMEM;
	fd = staging_open(name, size);
	if (fd < 0)
		return fd;
	memory = huge_pages_map(fd, size);
	if (memory == MAP_FAILED)
		return -errno;
	for (unsigned int i = 0; i < n_slots; i++)
		list[i] = n_slots - 1 - i;
	*staging = (struct staging){
		.fd = take_fd(&fd),
		.memory = memory,
		.size = size,
		.n_slots = n_slots,
		.n_free = n_slots,
		.free_list = take_ptr(list),
	};
	return 0;
}

void staging_deinit(struct staging *staging)
{
	if (!staging->memory)
		return;
	assert(staging->n_free == staging->n_slots);
	munmap(staging->memory, staging->size);
	close(staging->fd);
	free(staging->free_list);
	*staging = (struct staging){ .fd = -1 };
}

/*
 * All pages of the slot (before Linux 5.14 they come one by one): a request that the
 * kernel copies into a missing page fails with EIO when the process is killed in that
 * moment.
 */
static void slot_make(const struct staging *staging, unsigned int slot)
{
	(void)madvise(staging->memory + (uint64_t)slot * STAGING_SLOT, STAGING_SLOT,
		      MADV_POPULATE_WRITE);
}

int staging_get(struct staging *staging)
{
	unsigned int slot;

	if (!staging->n_free)
		return -EAGAIN;
	slot = staging->free_list[--staging->n_free];
	/* A slot is taken for the first time when those before it are in use. */
	if (slot == staging->n_made) {
		slot_make(staging, slot);
		staging->n_made++;
	}
	return (int)slot;
}

void staging_put(struct staging *staging, unsigned int slot)
{
	assert(slot < staging->n_slots && staging->n_free < staging->n_slots);
	staging->free_list[staging->n_free++] = slot;
}

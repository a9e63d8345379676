/* SPDX-License-Identifier: MIT */
/*
 * Every allocation of a mount has its address and its size in files; they are read again
 * when an address is not known, but so that no more than a part of the time goes there.
 * Addresses of memory that the broker itself deals are the same in all its workers;
 * others are of one owner's worker, so an allocation counts for its owner's worker, and
 * for the mover, which runs as the broker does.
 */
#include "mount.h"

#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define WORKER	      "gpumem-" /* what the broker calls its workers: and a uid, or `mover` */
#define FIRST_WAIT_NS 5000000
#define READ_SHARE    4 /* of the time may be spent reading: one part in so many */

struct named {
	uint64_t address;
	uint64_t size;
	unsigned int owner;
	char name[72];
};

struct mounts {
	struct named *list;
	size_t n;
	uint64_t read_at;
	uint64_t read_took;
};

struct mounts *mounts_new(void)
{
	return calloc(1, sizeof(struct mounts));
}

struct mounts *mounts_free(struct mounts *mounts)
{
	if (mounts)
		free(mounts->list);
	free(mounts);
	return NULL;
}

/* The first word of a small file as a number. Returns: false if it is none. */
static bool read_number(int dir, const char *file, uint64_t *ret_number)
{
	_cleanup_close_ int fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
	char text[64], *end;

	if (fd < 0)
		return false;
	ssize_t n = read(fd, text, sizeof text - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	*ret_number = strtoull(text, &end, 0);
	return end != text;
}

static void read_allocation(struct mounts *mounts, int dir, const char *name)
{
	_cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct named named = { 0 };
	uint64_t owner = 0;

	if (fd < 0 || !read_number(fd, "address", &named.address) || !named.address ||
	    !read_number(fd, "size", &named.size) || !read_number(fd, "owner", &owner))
		return;
	named.owner = (unsigned int)owner;
	snprintf(named.name, sizeof named.name, "%.64s", name);
	struct named *list = realloc(mounts->list, (mounts->n + 1) * sizeof *list);
	if (!list)
		return;
	mounts->list = list;
	list[mounts->n++] = named;
}

static void read_mount(struct mounts *mounts, const char *path)
{
	char allocations[4200];

	snprintf(allocations, sizeof allocations, "%s/allocations", path);
	DIR *dir = opendir(allocations);
	struct dirent *entry;
	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			read_allocation(mounts, dirfd(dir), entry->d_name);
	closedir(dir);
}

static void read_all(struct mounts *mounts)
{
	FILE *table = setmntent("/proc/self/mounts", "re");
	struct mntent *entry;

	mounts->n = 0;
	while (table && (entry = getmntent(table)))
		if (!strcmp(entry->mnt_type, "fuse.gpumemd"))
			read_mount(mounts, entry->mnt_dir);
	if (table)
		endmntent(table);
}

static const char *find(const struct mounts *mounts, unsigned int uid, uint64_t address)
{
	for (size_t i = 0; i < mounts->n; i++) {
		const struct named *named = &mounts->list[i];

		if (address - named->address < named->size &&
		    (uid == named->owner || uid == geteuid()))
			return named->name;
	}
	return NULL;
}

const char *mount_name(struct mounts *mounts, const char *comm, unsigned int uid,
		       uint64_t address, uint64_t since)
{
	const struct timespec wait = { .tv_nsec = FIRST_WAIT_NS };

	if (!mounts || !address || strncmp(comm, WORKER, strlen(WORKER)))
		return NULL;
	const char *name = mounts->read_at > since ? find(mounts, uid, address) : NULL;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (name || now - mounts->read_at < READ_SHARE * mounts->read_took)
		return name;
	/* the broker names it only when its worker has answered */
	nanosleep(&wait, NULL);
	read_all(mounts);
	mounts->read_at = clock_ns(CLOCK_MONOTONIC);
	mounts->read_took = mounts->read_at - now;
	return find(mounts, uid, address);
}

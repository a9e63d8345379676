/* SPDX-License-Identifier: MIT */
/*
 * Every allocation of a mount has its address and its size in files; they are read again
 * when an address is not known, but so that no more than a part of the time goes there.
 * Addresses of memory that the broker itself deals are the same in all its workers;
 * others are of one owner's worker, so an allocation counts for its owner's worker, and
 * for the mover.
 *
 * Several brokers deal the same addresses, so a name also has to be of the worker's own
 * broker. That is the worker's parent; which mount is its is told by the processes that
 * the mount names, the mover and the owners' workers, which have the same parent.
 */
#include "mount.h"

#include "base/clock.h"
#include "proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <uthash.h>

#define WORKER	      "gpumem-" /* what the broker calls its workers: and a uid, or `mover` */
#define MOVER	      WORKER "mover"
#define FIRST_WAIT_NS 5000000
#define READ_SHARE    4 /* of the time may be spent reading: one part in so many */

struct named {
	uint64_t address;
	uint64_t size;
	unsigned int owner;
	pid_t broker;
	char name[72];
};

struct worker {
	uint64_t process;
	pid_t broker;
	UT_hash_handle hh;
};

struct mounts {
	struct named *list;
	size_t n;
	uint64_t read_at;
	uint64_t read_took;
	struct worker *workers;
};

struct mounts *mounts_new(void)
{
	return calloc(1, sizeof(struct mounts));
}

struct mounts *mounts_free(struct mounts *mounts)
{
	struct worker *worker, *next;

	if (!mounts)
		return NULL;
	HASH_ITER (hh, mounts->workers, worker, next) {
		HASH_DEL(mounts->workers, worker);
		free(worker);
	}
	free(mounts->list);
	free(mounts);
	return NULL;
}

/* ---- workers ---- */

static bool is_worker(const char *comm)
{
	return !strncmp(comm, WORKER, strlen(WORKER));
}

/* Returns: 0 for a process that is no worker or is gone. */
static pid_t broker_of_worker(pid_t pid)
{
	char name[PROC_NAME_SIZE] = "";
	pid_t parent = proc_parent(pid, name);

	return is_worker(name) ? parent : 0;
}

/* Returns: 0 for one that is gone and was never met. */
static pid_t broker_of_user(struct mounts *mounts, const struct mount_user *user)
{
	struct worker *worker;

	HASH_FIND(hh, mounts->workers, &user->process, sizeof user->process, worker);
	if (worker)
		return worker->broker;
	pid_t broker = broker_of_worker((pid_t)user->pid);
	if (!broker)
		return 0;
	worker = calloc(1, sizeof *worker);
	if (!worker)
		return broker;
	worker->process = user->process;
	worker->broker = broker;
	HASH_ADD(hh, mounts->workers, process, sizeof worker->process, worker);
	return broker;
}

void mounts_meet(struct mounts *mounts, const struct mount_user *user)
{
	if (is_worker(user->comm))
		broker_of_user(mounts, user);
}

void mounts_forget(struct mounts *mounts, uint64_t process)
{
	struct worker *worker;

	HASH_FIND(hh, mounts->workers, &process, sizeof process, worker);
	if (!worker)
		return;
	HASH_DEL(mounts->workers, worker);
	free(worker);
}

/* ---- reading ---- */

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

static void read_allocation(struct mounts *mounts, pid_t broker, int dir,
			    const char *name)
{
	_cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct named named = { 0 };
	uint64_t owner = 0;

	if (fd < 0 || !read_number(fd, "address", &named.address) || !named.address ||
	    !read_number(fd, "size", &named.size) || !read_number(fd, "owner", &owner))
		return;
	named.owner = (unsigned int)owner;
	named.broker = broker;
	snprintf(named.name, sizeof named.name, "%.64s", name);
	struct named *list = realloc(mounts->list, (mounts->n + 1) * sizeof *list);
	if (!list)
		return;
	mounts->list = list;
	list[mounts->n++] = named;
}

static DIR *mount_folder(const char *path, const char *folder)
{
	char whole[4200];

	snprintf(whole, sizeof whole, "%s/%s", path, folder);
	return opendir(whole);
}

/* Returns: NULL at the end, where it closes the folder. */
static const char *folder_next(DIR *folder)
{
	struct dirent *entry;

	while ((entry = readdir(folder)))
		if (entry->d_name[0] != '.')
			return entry->d_name;
	closedir(folder);
	return NULL;
}

/* The mover in a mount's status, 0 for none. */
static pid_t mount_mover(const char *path)
{
	char line[4200];
	int mover = 0;

	snprintf(line, sizeof line, "%s/status", path);
	FILE *status = fopen(line, "re");
	while (status && fgets(line, sizeof line, status))
		if (sscanf(line, "mover %d", &mover) == 1)
			break;
	if (status)
		fclose(status);
	return mover;
}

/* Returns: 0 when it has no worker now, so that nobody asks for its names. */
static pid_t mount_broker(const char *path)
{
	pid_t broker = broker_of_worker(mount_mover(path));
	DIR *owners = broker ? NULL : mount_folder(path, "owners");
	const char *name;

	while (owners && (name = folder_next(owners))) {
		_cleanup_close_ int owner =
			openat(dirfd(owners), name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		uint64_t worker;

		if (!broker && owner >= 0 && read_number(owner, "worker", &worker))
			broker = broker_of_worker((pid_t)worker);
	}
	return broker;
}

static void read_mount(struct mounts *mounts, const char *path)
{
	pid_t broker = mount_broker(path);
	DIR *allocations = broker ? mount_folder(path, "allocations") : NULL;
	const char *name;

	while (allocations && (name = folder_next(allocations)))
		read_allocation(mounts, broker, dirfd(allocations), name);
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

static const char *find(const struct mounts *mounts, const struct mount_user *user,
			pid_t broker, uint64_t address)
{
	bool mover = !strcmp(user->comm, MOVER);

	for (size_t i = 0; i < mounts->n; i++) {
		const struct named *named = &mounts->list[i];

		if (address - named->address < named->size && named->broker == broker &&
		    (mover || user->uid == named->owner))
			return named->name;
	}
	return NULL;
}

const char *mount_name(struct mounts *mounts, const struct mount_user *user,
		       uint64_t address, uint64_t since)
{
	const struct timespec wait = { .tv_nsec = FIRST_WAIT_NS };

	if (!mounts || !is_worker(user->comm))
		return NULL;
	pid_t broker = broker_of_user(mounts, user);
	if (!broker || !address)
		return NULL;
	const char *name =
		mounts->read_at > since ? find(mounts, user, broker, address) : NULL;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (name || now - mounts->read_at < READ_SHARE * mounts->read_took)
		return name;
	/* the broker names it only when its worker has answered */
	nanosleep(&wait, NULL);
	now = clock_ns(CLOCK_MONOTONIC);
	read_all(mounts);
	mounts->read_at = clock_ns(CLOCK_MONOTONIC);
	mounts->read_took = mounts->read_at - now;
	return find(mounts, user, broker, address);
}

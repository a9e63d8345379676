/* SPDX-License-Identifier: MIT */
/*
 * The memory of the devices, shared by all processes of a machine, without a daemon.
 *
 * A piece of physical memory is a file in /dev/shm/gpumem-softgpu.MACHINE/, named
 * DEVICE-SIZE-PID-N. Its maker opens it and takes flock(LOCK_SH) on that open file
 * description, which everything that holds the memory shares: the descriptor, its
 * copies in other processes (an exported handle is one) and every mmap. So the lock
 * lasts exactly as long as any holder in any process, and goes with the last of them
 * also when that is killed. Whoever opens the file by its name anew and gets LOCK_EX
 * knows that nobody holds it, and unlinks it.
 *
 * The sum of the sizes is kept in a file, one number a device, so that making memory
 * costs the same however much there is. It is read and written under the lock and not
 * mapped: it is everybody's, and who makes it shorter must end nobody. The number may be
 * too high, never too low: who dies takes nothing off. It is made right by looking at
 * every file when a request would not fit and when somebody asks how much is free.
 *
 * Pages of managed memory that are on a device count there too (residency.h). They make
 * room for everything else by going to the host.
 *
 * All changes are made under flock(LOCK_EX) of the directory, which the kernel also
 * lets go when its holder dies. Files are 0600: one that this process may not open
 * belongs to another user and is taken for alive.
 *
 * /dev/shm is everybody's. So a machine is joined only where root or this user made its
 * directory, symbolic links are not followed, and nothing is removed or written to that
 * is not a plain file with one name. An ordinary user's machine has another name than
 * root's by default (options.c).
 *
 * A machine is there while a process uses it, which holds flock(LOCK_SH) on that page's
 * file, or while memory of it is held. A process that exits takes along what nobody else
 * can hold, and the last one the machine; what a killed one leaves is cleared away by
 * whoever joins any machine next.
 */
#include "ledger.h"

#include "options.h"
#include "residency.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define PARENT	  "/dev/shm"
#define PREFIX	  "gpumem-softgpu."
#define SUMS_NAME "sums"

/* Of a file's mode: another process may have been given a descriptor of it. */
#define MODE_EXPORTED S_IXUSR

static char directory[384];
static int directory_fd = -1;
static int sums_fd = -1;
static pid_t pid;	  /* who joined, not a child of its */
static struct sums *sums; /* what the file has, under the directory's flock */

/* Whom this process trusts with its own memory. */
static bool user_is_trusted(uid_t uid)
{
	return uid == 0 || uid == geteuid();
}

int ledger_open_file(int dir_fd, const char *name, int flags)
{
	_cleanup_close_ int fd =
		openat(dir_fd, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat stat;

	if (fd < 0 || fstat(fd, &stat) < 0)
		return -errno;
	/* A second name could be one of a file that is not of this machine. */
	if (!S_ISREG(stat.st_mode) || stat.st_nlink != 1)
		return -EPERM;
	return take_fd(&fd);
}

static void directory_lock(int fd)
{
	while (flock(fd, LOCK_EX) < 0 && errno == EINTR)
		continue;
}

/* Where a descriptor leads, without symbolic links. */
static int descriptor_path(int fd, char *ret, size_t size)
{
	char link[32];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, ret, size - 1);
	if (n < 0)
		return -errno;
	ret[n] = '\0';
	return 0;
}

static int directory_check(void)
{
	struct stat stat;

	if (fstat(directory_fd, &stat) < 0)
		return -errno;
	if (user_is_trusted(stat.st_uid) &&
	    (!(stat.st_mode & (S_IWGRP | S_IWOTH)) || (stat.st_mode & S_ISVTX)))
		return 0;
	fprintf(stderr,
		"software GPU: %s belongs to uid %u, who is not trusted with it: remove "
		"it, "
		"or take another machine=\n",
		directory, (unsigned int)stat.st_uid);
	closep(&directory_fd);
	return -EPERM;
}

static int directory_say(int error)
{
	if (error == ENOTDIR)
		fprintf(stderr, "software GPU: %s is a symbolic link, or no directory\n",
			directory);
	else
		fprintf(stderr, "software GPU: %s: %s\n", directory, strerror(error));
	return -error;
}

/* Umask must not keep other users out of the machine; only its maker may chmod. */
static int directory_open(void)
{
	const bool made = mkdir(directory, 01777) >= 0;

	if (!made && errno != EEXIST)
		return directory_say(errno);
	directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (directory_fd < 0)
		return errno == ENOENT ? 0 : directory_say(errno);
	if (made)
		fchmod(directory_fd, 01777);
	return directory_check();
}

/* Leaves the directory locked. Another process may just be clearing it away. */
static int directory_join(void)
{
	struct stat stat;
	int r;

	snprintf(directory, sizeof(directory), "%s/" PREFIX "%s", options.directory,
		 options.machine);
	for (;;) {
		r = directory_open();
		if (r < 0)
			return r;
		if (directory_fd < 0)
			continue;
		directory_lock(directory_fd);
		if (fstat(directory_fd, &stat) >= 0 && stat.st_nlink)
			return descriptor_path(directory_fd, directory,
					       sizeof(directory));
		closep(&directory_fd);
	}
}

/* The descriptor stays open, with its lock, as long as the process lives. */
static int sums_open(void)
{
	static struct sums copy;
	_cleanup_close_ int fd = -1;
	struct stat stat;

	fd = ledger_open_file(directory_fd, SUMS_NAME, O_RDWR);
	if (fd < 0 && fd != -ENOENT)
		return fd;
	if (fd == -ENOENT) {
		fd = openat(directory_fd, SUMS_NAME,
			    O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd < 0)
			return -errno;
		if (fchmod(fd, 0666) < 0)
			return -errno;
	}
	if (fstat(fd, &stat) < 0)
		return -errno;
	if (!user_is_trusted(stat.st_uid))
		return -EPERM;
	if (flock(fd, LOCK_SH) < 0)
		return -errno;
	sums = &copy;
	sums_fd = take_fd(&fd);
	return 0;
}

/* What is too short, or was never written, is counted anew. */
static void sums_read(void)
{
	if (pread(sums_fd, sums, sizeof(*sums), 0) != sizeof(*sums))
		ledger_scan();
}

static void sums_write(void)
{
	if (pwrite(sums_fd, sums, sizeof(*sums), 0) != sizeof(*sums))
		(void)ftruncate(sums_fd, 0);
}

struct sums *ledger_lock(void)
{
	directory_lock(directory_fd);
	sums_read();
	return sums;
}

void ledger_unlock(void)
{
	sums_write();
	flock(directory_fd, LOCK_UN);
}

int ledger_directory(void)
{
	return directory_fd;
}

static int name_parse(const char *name, int *ret_device, uint64_t *ret_size)
{
	unsigned long long size;
	unsigned int device, n;
	int maker, end = 0;

	if (sscanf(name, "%u-%llu-%d-%u%n", &device, &size, &maker, &n, &end) != 4)
		return -EINVAL;
	if (name[end] || device >= OPTIONS_MAX_DEVICES)
		return -EINVAL;
	*ret_device = (int)device;
	*ret_size = size;
	return 0;
}

bool ledger_reap(int dir_fd, const char *name)
{
	_cleanup_close_ int fd = ledger_open_file(dir_fd, name, O_RDONLY);

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return false;
	unlinkat(dir_fd, name, 0);
	return true;
}

/* Makes the sums right. Under the lock. */
void ledger_scan(void)
{
	struct sums found = { .clock = sums->clock };
	struct dirent *entry;
	uint64_t size;
	int device;
	DIR *dir = opendir(directory);

	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		const bool memory = name_parse(entry->d_name, &device, &size) >= 0;

		if (!memory && !residency_is(entry->d_name))
			continue;
		if (ledger_reap(directory_fd, entry->d_name))
			continue;
		if (memory)
			found.used[device] += size;
		else
			residency_count(entry->d_name, &found);
	}
	closedir(dir);
	*sums = found;
}

static bool is_of_a_machine(const char *name)
{
	uint64_t size;
	int device;

	return name_parse(name, &device, &size) >= 0 || residency_is(name);
}

/* Removes what is in the directory of a machine. Returns: whether that was all. */
static bool machine_empty(int fd)
{
	struct dirent *entry;
	bool held = false;
	DIR *dir = fdopendir(dup(fd));

	if (!dir)
		return false;
	rewinddir(dir);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || strcmp(entry->d_name, SUMS_NAME) == 0)
			continue;
		held |= !is_of_a_machine(entry->d_name) ||
			!ledger_reap(fd, entry->d_name);
	}
	closedir(dir);
	if (!held)
		unlinkat(fd, SUMS_NAME, 0);
	return !held;
}

/* Removes one machine, if nobody uses it and none of its memory is held. */
static void machine_clear(int parent_fd, const char *name)
{
	_cleanup_close_ int fd =
		openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_close_ int used_fd = -1;
	struct stat stat;

	if (fd < 0 || fstat(fd, &stat) < 0 ||
	    (!user_is_trusted(stat.st_uid) && geteuid() != 0))
		return;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return;
	used_fd = ledger_open_file(fd, SUMS_NAME, O_RDONLY);
	if (used_fd >= 0 && flock(used_fd, LOCK_EX | LOCK_NB) < 0)
		return;
	if (machine_empty(fd))
		unlinkat(parent_fd, name, AT_REMOVEDIR);
}

static void machines_clear(void)
{
	struct dirent *entry;
	DIR *dir = opendir(options.directory);

	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (!strncmp(entry->d_name, PREFIX, strlen(PREFIX)) &&
		    strcmp(entry->d_name + strlen(PREFIX), options.machine) != 0)
			machine_clear(dirfd(dir), entry->d_name);
	closedir(dir);
}

/* Whether nobody but this process can hold a file of the machine. */
static bool file_is_own(const char *name)
{
	struct stat stat;
	int maker;

	if (sscanf(name, "%*u-%*u-%d-", &maker) != 1 &&
	    sscanf(name, RESIDENCY_PREFIX "%d-", &maker) != 1)
		return false;
	return maker == pid &&
	       fstatat(directory_fd, name, &stat, AT_SYMLINK_NOFOLLOW) >= 0 &&
	       !(stat.st_mode & MODE_EXPORTED);
}

static void files_leave(DIR *dir)
{
	struct dirent *entry;

	while ((entry = readdir(dir)))
		if (file_is_own(entry->d_name))
			unlinkat(directory_fd, entry->d_name, 0);
}

/*
 * At exit, while other threads may still use the memory, so only names go; the process
 * counts as gone from here on. They may also hold the lock, hence one more description.
 */
__attribute__((destructor)) static void ledger_leave(void)
{
	DIR *dir;

	if (!sums || pid != getpid())
		return;
	dir = opendir(directory);
	if (!dir)
		return;
	directory_lock(dirfd(dir));
	files_leave(dir);
	ledger_scan();
	sums_write();
	if (flock(sums_fd, LOCK_EX | LOCK_NB) >= 0 && machine_empty(directory_fd))
		rmdir(directory);
	closedir(dir);
}

int ledger_open(void)
{
	int r;

	pid = getpid();
	machines_clear();
	r = directory_join();
	if (r < 0)
		return r;
	r = sums_open();
	if (r >= 0)
		sums_read();
	flock(directory_fd, LOCK_UN);
	if (r < 0) {
		fprintf(stderr, "software GPU: %s/" SUMS_NAME ": %s\n", directory,
			strerror(-r));
		closep(&directory_fd);
	}
	return r;
}

static bool ledger_fits(int device, uint64_t size)
{
	return size <= options.memory && sums->used[device] <= options.memory - size;
}

bool ledger_take(int device, uint64_t size)
{
	if (!ledger_fits(device, size))
		ledger_scan();
	if (!ledger_fits(device, size) && size <= options.memory)
		residency_evict(device, sums->used[device] + size - options.memory, sums);
	if (!ledger_fits(device, size))
		return false;
	sums->used[device] += size;
	return true;
}

void ledger_give(int device, uint64_t size)
{
	sums->used[device] -= MIN(size, sums->used[device]);
}

static int file_create(struct memory *memory)
{
	static unsigned int n; /* under the library's lock */
	_cleanup_close_ int fd = -1;

	do {
		snprintf(memory->name, sizeof(memory->name), "%d-%llu-%d-%u",
			 memory->device, (unsigned long long)memory->size, (int)getpid(),
			 n++);
		fd = openat(directory_fd, memory->name,
			    O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	} while (fd < 0 && errno == EEXIST);
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_SH) < 0 || ftruncate(fd, (off_t)memory->size) < 0) {
		int error = errno;

		unlinkat(directory_fd, memory->name, 0);
		return -error;
	}
	memory->fd = take_fd(&fd);
	return 0;
}

int ledger_create(int device, uint64_t size, struct memory *memory)
{
	int r = -ENOMEM;

	*memory = (struct memory){ .fd = -1, .device = device, .size = size };
	ledger_lock();
	if (ledger_take(device, size)) {
		r = file_create(memory);
		if (r < 0)
			ledger_give(device, size);
	}
	ledger_unlock();
	return r;
}

int ledger_import(int fd, struct memory *memory)
{
	struct memory found = { .fd = -1 };
	size_t length = strlen(directory);
	char target[512];

	if (descriptor_path(fd, target, sizeof(target)) < 0)
		return -EINVAL;
	if (strncmp(target, directory, length) || target[length] != '/' ||
	    strlen(target + length + 1) >= sizeof(found.name))
		return -EINVAL;
	strcpy(found.name, target + length + 1);
	if (name_parse(found.name, &found.device, &found.size) < 0 ||
	    found.device >= options.n_devices)
		return -EINVAL;
	found.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (found.fd < 0)
		return -EINVAL;
	*memory = found;
	return 0;
}

int ledger_export(const struct memory *memory)
{
	if (fchmod(memory->fd, 0600 | MODE_EXPORTED) < 0)
		return -errno;
	return fcntl(memory->fd, F_DUPFD_CLOEXEC, 3);
}

void ledger_release(struct memory *memory)
{
	closep(&memory->fd);
	ledger_lock();
	if (ledger_reap(directory_fd, memory->name))
		ledger_give(memory->device, memory->size);
	ledger_unlock();
}

uint64_t ledger_used(int device)
{
	uint64_t used;

	ledger_lock();
	ledger_scan();
	used = sums->used[device];
	ledger_unlock();
	return used;
}

/* SPDX-License-Identifier: MIT */
/*
 * The memory of the devices, shared by all processes of a machine, without a daemon.
 *
 * A piece of physical memory is a file DEVICE-SIZE-PID-N in the maker's account
 * (account.h), /dev/shm/gpumem-softgpu.MACHINE/UID-N/. The maker opens the file for
 * writing, and all holders of the memory share this open file description: the
 * descriptor, copies in other processes (such as an exported handle) and every mmap. So
 * the description lasts exactly as long as any holder in any process, and goes with the
 * last of them, also with a killed process. Whether it is still there says the kernel
 * (account.c). A lock of the description would last as long, but any holder could undo it
 * for all the others.
 *
 * The sizes are added up by account, so that making memory costs the same however much
 * there is. A sum may be too high, never too low: a process that dies takes nothing off.
 * Sums are made right by looking at every file when a request would not fit and when
 * somebody asks how much is free. Pages of managed memory on a device count there too
 * (residency.h). They make room for everything else by going to the host.
 *
 * No process waits for a lock of another user's. A process adds the memory to the sum of
 * the own account first and then looks at the sums of all: so the limit holds, and of two
 * users who ask for the last bytes at the same moment both may be refused. Root's
 * processes, and no others, count and evict in the accounts of other users, where the
 * lock is free at that moment, for requests of their own, and by a thread that they wait
 * for a second at most (others.h). Other processes ask them to count what root has
 * (recount.h). In all other cases the sums of an account are believed: a user can claim a
 * device's memory by a lie as well as by an allocation.
 *
 * /dev/shm is everybody's. So a machine is joined only where root or this user made the
 * directory, symbolic links are not followed, and only plain files with a single name are
 * written and removed. An ordinary user's machine has another name than root's by default
 * (options.c).
 *
 * A machine is there while a process uses the machine or holds its memory. A process that
 * exits takes along memory that nobody else can hold; the last process of a user takes
 * the account, and the last of all the machine. Remains of a killed process are cleared
 * away by the next process of the same user, or of root, that starts, in all machines but
 * those that processes of root use (remains.h). In these, root's counts take the memory.
 */
#include "ledger.h"

#include "others.h"
#include "recount.h"
#include "remains.h"
#include "softgpu/managed/residency.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

/* A bit of the file's mode: another process may have a descriptor of the memory. */
#define MODE_EXPORTED S_IXUSR

static char directory[384];
static int machine_fd = -1;
static struct account own = ACCOUNT_NONE;
static pid_t pid;	   /* of the process that joined, not of its children; or 0 */
static int joined_fd = -1; /* open, with its lock, as long as the process lives */

/* Users trusted by this process with the memory of the process. */
static bool user_is_trusted(uid_t uid)
{
	return uid == 0 || uid == geteuid();
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

static int machine_check(void)
{
	struct stat stat;

	if (fstat(machine_fd, &stat) < 0)
		return -errno;
	if (user_is_trusted(stat.st_uid) &&
	    (!(stat.st_mode & (S_IWGRP | S_IWOTH)) || (stat.st_mode & S_ISVTX)))
		return 0;
	fprintf(stderr,
		"software GPU: %s belongs to uid %u, who is not trusted with it: remove "
		"it, or take another machine=\n",
		directory, (unsigned int)stat.st_uid);
	return -EPERM;
}

static int machine_say(int error)
{
	if (error == ENOTDIR)
		fprintf(stderr, "software GPU: %s is a symbolic link, or no directory\n",
			directory);
	else
		fprintf(stderr, "software GPU: %s: %s\n", directory, strerror(error));
	return -error;
}

/* Umask must not keep other users out of the machine; only its maker may chmod. */
static int machine_open(void)
{
	const bool made = mkdir(directory, 01777) >= 0;

	if (!made && errno != EEXIST)
		return machine_say(errno);
	machine_fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (machine_fd < 0)
		return errno == ENOENT ? -EAGAIN : machine_say(errno);
	if (made)
		fchmod(machine_fd, 01777);
	return machine_check();
}

/* Another process may just be clearing the machine away. */
static int machine_join(void)
{
	int r;

	snprintf(directory, sizeof(directory), "%s/" REMAINS_PREFIX "%s",
		 options.directory, options.machine);
	do {
		closep(&machine_fd);
		r = machine_open();
		if (r == 0) {
			r = account_join(machine_fd, &own, &joined_fd);
			if (r < 0 && r != -EAGAIN)
				machine_say(-r);
		}
	} while (r == -EAGAIN);
	if (r < 0)
		return r;
	account_unlock(&own);
	return descriptor_path(machine_fd, directory, sizeof(directory));
}

struct account *ledger_lock(void)
{
	account_lock(&own);
	return &own;
}

void ledger_unlock(void)
{
	account_unlock(&own);
}

/* The sums of all users. */
static struct sums all_sums(void)
{
	struct sums all = own.sums, other;
	struct accounts accounts;
	const char *name;

	accounts_open(&accounts, machine_fd);
	while ((name = accounts_next(&accounts, NULL))) {
		if (!strcmp(name, own.name) || !account_look(machine_fd, name, &other))
			continue;
		for (int i = 0; i < OPTIONS_MAX_DEVICES; i++)
			sums_add(&all.used[i], other.used[i]);
		sums_add(&all.managed, other.managed);
	}
	accounts_close(&accounts);
	return all;
}

static void own_evict(int device, uint64_t bytes)
{
	struct residency_ages ages = RESIDENCY_AGES_INIT;
	struct residency_until until;

	residency_look(&ages, own.fd, device);
	if (residency_choose(&ages, bytes, &until))
		residency_evict(device, bytes, until, &own);
	residency_ages_free(&ages);
}

/*
 * Makes the sums right, and has managed pages moved off a device that would hold more
 * than all its memory with so many bytes added.
 */
static void sums_correct(int device, uint64_t bytes)
{
	uint64_t used;

	account_scan(&own);
	used = own.sums.used[device];
	sums_add(&used, bytes);
	if (geteuid() == 0)
		others_correct(machine_fd, own.name, device, used);
	else
		recount_ask(machine_fd);
	used = all_sums().used[device];
	sums_add(&used, bytes);
	if (used > options.memory)
		own_evict(device, used - options.memory);
}

/* Whether nobody but this process can hold a file of the account. */
static bool file_is_own(int dir_fd, const char *name)
{
	struct stat stat;
	int maker;

	if (sscanf(name, "%*u-%*u-%d-", &maker) != 1 &&
	    sscanf(name, RESIDENCY_PREFIX "%d-", &maker) != 1)
		return false;
	return maker == pid && fstatat(dir_fd, name, &stat, AT_SYMLINK_NOFOLLOW) >= 0 &&
	       !(stat.st_mode & MODE_EXPORTED);
}

static void files_leave(int dir_fd)
{
	DIR *dir = fdopendir(openat(dir_fd, ".", O_RDONLY | O_CLOEXEC));
	struct dirent *entry;

	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (file_is_own(dir_fd, entry->d_name))
			unlinkat(dir_fd, entry->d_name, 0);
	closedir(dir);
}

/*
 * At exit, while other threads may still use the memory, so only names go; the process
 * counts as gone from here on. They may also hold the lock, hence one more description.
 */
__attribute__((destructor)) static void ledger_leave(void)
{
	struct account leaving = ACCOUNT_NONE;
	int again = -1;

	if (!pid || pid != getpid())
		return;
	if (account_join(machine_fd, &leaving, &again) < 0)
		return;
	closep(&again);
	files_leave(leaving.fd);
	account_scan(&leaving);
	if (flock(joined_fd, LOCK_EX | LOCK_NB) >= 0)
		account_remove(machine_fd, &leaving);
	account_close(&leaving);
	/*
	 * Where all have left. What killed processes of other users have left stays: they
	 * could hold up this end of a process of root (others.h).
	 */
	rmdir(directory);
}

/* Returns: 0, or -errno. */
static int all_clear(void)
{
	int r = geteuid() == 0 ? others_start() : 0;

	if (r < 0)
		return r;
	if (geteuid() == 0)
		others_clear();
	else
		remains_clear();
	return 0;
}

int ledger_open(void)
{
	int r = all_clear();

	if (r >= 0)
		r = machine_join();
	if (r < 0) {
		closep(&machine_fd);
		return r;
	}
	pid = getpid();
	return geteuid() == 0 ? recount_serve(machine_fd, &own) : 0;
}

static bool used_fits(int device)
{
	return all_sums().used[device] <= options.memory;
}

bool ledger_take(int device, uint64_t size)
{
	if (size > options.memory)
		return false;
	for (int tried = 0; tried < 2; tried++) {
		sums_add(&own.sums.used[device], size);
		account_publish(&own);
		if (used_fits(device))
			return true;
		sums_take(&own.sums.used[device], size);
		if (!tried)
			sums_correct(device, size);
	}
	return false;
}

void ledger_give(int device, uint64_t size)
{
	sums_take(&own.sums.used[device], size);
}

bool ledger_take_managed(uint64_t size)
{
	if (size > options.managed)
		return false;
	for (int tried = 0; tried < 2; tried++) {
		sums_add(&own.sums.managed, size);
		account_publish(&own);
		if (all_sums().managed <= options.managed)
			return true;
		sums_take(&own.sums.managed, size);
		if (!tried)
			sums_correct(0, 0);
	}
	return false;
}

static int file_create(struct memory *memory)
{
	static unsigned int n; /* under the library's lock */
	_cleanup_close_ int fd = -1;

	do {
		snprintf(memory->name, sizeof(memory->name), "%d-%llu-%d-%u",
			 memory->device, (unsigned long long)memory->size, (int)getpid(),
			 n++);
		fd = account_create(&own, memory->name);
	} while (fd == -EEXIST);
	if (fd < 0)
		return fd;
	if (ftruncate(fd, (off_t)memory->size) < 0) {
		int error = errno;

		unlinkat(own.fd, memory->name, 0);
		return -error;
	}
	memory->fd = take_fd(&fd);
	return 0;
}

int ledger_create(int device, uint64_t size, struct memory *memory)
{
	int r = -ENOMEM;

	*memory = (struct memory){
		.fd = -1, .device = device, .size = size, .is_own = true
	};
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
	const size_t length = strlen(directory);
	char target[512], *name;
	uid_t uid;

	if (descriptor_path(fd, target, sizeof(target)) < 0)
		return -EINVAL;
	if (strncmp(target, directory, length) || target[length] != '/')
		return -EINVAL;
	name = strchr(target + length + 1, '/');
	if (!name || strlen(name + 1) >= sizeof(found.name))
		return -EINVAL;
	*name = '\0';
	strcpy(found.name, name + 1);
	if (!account_parse(target + length + 1, &uid) ||
	    !account_parse_memory(found.name, &found.device, &found.size) ||
	    found.device >= options.n_devices)
		return -EINVAL;
	found.is_own = !strcmp(target + length + 1, own.name);
	found.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (found.fd < 0)
		return -EINVAL;
	*memory = found;
	return 0;
}

int ledger_export(const struct memory *memory)
{
	struct stat stat;

	/*
	 * Once only, and not the memory of other users: whoever has the descriptor can
	 * hold up the call.
	 */
	if (fstat(memory->fd, &stat) < 0 ||
	    (memory->is_own && !(stat.st_mode & MODE_EXPORTED) &&
	     fchmod(memory->fd, 0600 | MODE_EXPORTED) < 0))
		return -errno;
	return fcntl(memory->fd, F_DUPFD_CLOEXEC, 3);
}

void ledger_release(struct memory *memory)
{
	closep(&memory->fd);
	/* Only root, when counting, changes another user's account. */
	if (!memory->is_own)
		return;
	ledger_lock();
	if (account_reap(&own, memory->name))
		ledger_give(memory->device, memory->size);
	ledger_unlock();
}

uint64_t ledger_used(int device)
{
	uint64_t used;

	ledger_lock();
	sums_correct(device, 0);
	used = all_sums().used[device];
	ledger_unlock();
	return MIN(used, options.memory);
}

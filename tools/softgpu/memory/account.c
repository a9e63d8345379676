/* SPDX-License-Identifier: MIT */
/*
 * A machine's directory has a directory for each user who has joined, named UID-N, with
 * all files of this user:
 *
 *	DEVICE-SIZE-PID-N     physical memory (ledger.h)
 *	managed-PID-ADDRESS   where managed pages are (residency.h)
 *	sums                  the totals of both, a number for each device
 *	joined                locked by each process that uses the account
 *	ask, counted,
 *	counting              in the account of root only (recount.h)
 *
 * The lock of an account is flock(LOCK_EX) of the directory, which the kernel also lets
 * go when the holder dies. Directory and files can be opened by their user and by root
 * only, except that all users may read the sums. So no user can take the lock of another,
 * and no process waits for another user's: a process of root tries the lock and goes on
 * without. The kernel's own locks of the directory and the files are different: a user
 * can hold up whoever needs one. So no call of the driver does anything with another
 * user's account but read the sums (account_look()); others.h has the rest.
 *
 * Memory, and a book of managed pages, is there while somebody holds the file: has it
 * open for writing, or has a mapping made of such a description. The kernel counts these,
 * and gives a lease for reading (F_SETLEASE) only where there are none. So a process that
 * opens the file by name anew, for reading, and gets the lease knows that there is no
 * holder. A lock would not do: all holders share the maker's description and with it the
 * lock, and each of them may let it go for all. Nobody can close what another process has
 * open.
 *
 * To open a file for writing breaks a lease: the open fails with O_NONBLOCK, or waits
 * until the lease is given back, and its holder gets a signal. These files are opened for
 * writing when they are made, and a book by who evicts from it; both do not wait. Leases
 * are for the owner of a file and for CAP_LEASE: to a root without it, all files of other
 * users have holders.
 *
 * The machine's directory is everybody's, and anybody may have laid out anything there:
 * an account is a directory that belongs to the user of that name, whatever N is.
 */
#include "account.h"

#include "base/clock.h"
#include "softgpu/managed/residency.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define SUMS_NAME   "sums"
#define JOINED_NAME "joined"

/* Of an account's name, tried before any number. */
#define FIRST_NUMBERS 16

/* Of a lookup that another process's rename may have disturbed. */
#define CACHED_TRIES 8

/* Sums that are too short, or were never written, are counted anew. */
static void sums_read(struct account *account)
{
	if (pread(account->sums_fd, &account->sums, sizeof(account->sums), 0) !=
	    sizeof(account->sums))
		account_scan(account);
}

int account_create(const struct account *account, const char *name)
{
	int fd;

	do {
		fd = openat(account->fd, name,
			    O_RDWR | O_CREAT | O_EXCL | O_NONBLOCK | O_CLOEXEC, 0600);
		if (fd >= 0 || errno != EAGAIN)
			break;
		/* account_sweep() has the lease of the new file: another one then. */
		unlinkat(account->fd, name, 0);
	} while (true);
	return fd < 0 ? -errno : fd;
}

/* Takes the descriptor, or the error of its open in errno. */
static int file_check(int opened)
{
	_cleanup_close_ int fd = opened;
	struct stat stat;

	if (fd < 0 || fstat(fd, &stat) < 0)
		return -errno;
	if (!S_ISREG(stat.st_mode) || stat.st_nlink != 1)
		return -EPERM;
	return take_fd(&fd);
}

#define FILE_FLAGS (O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

int account_file(int dir_fd, const char *name, int flags)
{
	return file_check(openat(dir_fd, name, flags | FILE_FLAGS, 0600));
}

bool account_parse_memory(const char *name, int *ret_device, uint64_t *ret_size)
{
	unsigned long long size;
	unsigned int device, n;
	int maker, end = 0;

	if (sscanf(name, "%u-%llu-%d-%u%n", &device, &size, &maker, &n, &end) != 4)
		return false;
	if (name[end] || device >= OPTIONS_MAX_DEVICES)
		return false;
	*ret_device = (int)device;
	*ret_size = size;
	return true;
}

bool account_parse(const char *name, uid_t *ret_uid)
{
	unsigned int n;
	int end = 0;

	return sscanf(name, "%10u-%10u%n", ret_uid, &n, &end) == 2 && !name[end];
}

int account_directory(int machine_fd, const char *name, int flags)
{
	_cleanup_close_ int fd =
		openat(machine_fd, name, flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat stat;
	uid_t uid;

	if (fd < 0 || fstat(fd, &stat) < 0)
		return -errno;
	if (!account_parse(name, &uid) || stat.st_uid != uid)
		return -EPERM;
	return take_fd(&fd);
}

static bool directory_is_of(int machine_fd, const char *name, uid_t uid)
{
	struct stat stat;

	return fstatat(machine_fd, name, &stat, AT_SYMLINK_NOFOLLOW) >= 0 &&
	       S_ISDIR(stat.st_mode) && stat.st_uid == uid;
}

struct accounts_user {
	uid_t uid;
	unsigned int n;
};

void accounts_open(struct accounts *accounts, int machine_fd)
{
	*accounts = (struct accounts){
		.dir = fdopendir(
			openat(machine_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
	};
}

void accounts_close(struct accounts *accounts)
{
	if (accounts->dir)
		closedir(accounts->dir);
	free(accounts->users);
}

static struct accounts_user *user_find(struct accounts *accounts, uid_t uid)
{
	for (size_t i = 0; i < accounts->n_users; i++)
		if (accounts->users[i].uid == uid)
			return &accounts->users[i];
	return NULL;
}

static void user_count(struct accounts *accounts, struct accounts_user *user, uid_t uid)
{
	struct accounts_user *grown;

	if (user) {
		user->n++;
		return;
	}
	grown = reallocarray(accounts->users, accounts->n_users + 1, sizeof(*grown));
	if (!grown)
		return;
	accounts->users = grown;
	grown[accounts->n_users++] = (struct accounts_user){ .uid = uid, .n = 1 };
}

/*
 * Names of a user that others have made do not count: or they could have the user's own
 * account overlooked.
 */
const char *accounts_next(struct accounts *accounts, uid_t *ret_uid)
{
	struct dirent *entry;
	uid_t uid;

	while (accounts->dir && (entry = readdir(accounts->dir))) {
		struct accounts_user *user;

		if (!account_parse(entry->d_name, &uid))
			continue;
		user = user_find(accounts, uid);
		if ((user && user->n == ACCOUNTS_OF_A_USER) ||
		    !directory_is_of(dirfd(accounts->dir), entry->d_name, uid))
			continue;
		user_count(accounts, user, uid);
		if (ret_uid)
			*ret_uid = uid;
		return entry->d_name;
	}
	return NULL;
}

/* An account of this user. */
static bool own_find(int machine_fd, char *ret, size_t size)
{
	struct accounts accounts;
	const char *name;
	uid_t uid;

	accounts_open(&accounts, machine_fd);
	while ((name = accounts_next(&accounts, &uid)) && uid != geteuid())
		continue;
	if (name)
		snprintf(ret, size, "%s", name);
	accounts_close(&accounts);
	return name;
}

/*
 * The first number, so that two processes which begin at once make the same account, and
 * one of them fails. Others may have taken the first numbers, but not all there are.
 */
static void own_name(int machine_fd, char *ret, size_t size)
{
	struct stat stat;

	for (unsigned int n = 0; n <= FIRST_NUMBERS; n++) {
		const unsigned int number =
			n < FIRST_NUMBERS ? n : (unsigned int)clock_ns(CLOCK_MONOTONIC);

		snprintf(ret, size, "%u-%u", (unsigned int)geteuid(), number);
		if (fstatat(machine_fd, ret, &stat, AT_SYMLINK_NOFOLLOW) < 0)
			return;
	}
}

static int own_make(int machine_fd, char *ret, size_t size)
{
	own_name(machine_fd, ret, size);
	return mkdirat(machine_fd, ret, 0711) < 0 ? -errno : 0;
}

/* Leaves the account locked. Returns: 0, -EAGAIN for another try, or -errno. */
static int own_open(int machine_fd, struct account *account)
{
	struct stat stat;
	int r = 0;

	if (!own_find(machine_fd, account->name, sizeof(account->name)))
		r = own_make(machine_fd, account->name, sizeof(account->name));
	if (r < 0)
		return r == -EEXIST ? -EAGAIN : r;
	account->fd = account_directory(machine_fd, account->name, O_RDONLY);
	if (account->fd < 0)
		return account->fd == -ENOENT ? -EAGAIN : account->fd;
	account_lock(account);
	/* Another process may just have cleared it away. */
	if (fstat(account->fd, &stat) < 0 || !stat.st_nlink)
		return -EAGAIN;
	/* Whatever the umask. */
	return fchmod(account->fd, 0711) < 0 ? -errno : 0;
}

static int files_open(struct account *account, int *ret_joined)
{
	_cleanup_close_ int joined = -1;

	account->sums_fd = account_file(account->fd, SUMS_NAME, O_RDWR | O_CREAT);
	if (account->sums_fd < 0)
		return account->sums_fd;
	joined = account_file(account->fd, JOINED_NAME, O_RDWR | O_CREAT);
	if (joined < 0)
		return joined;
	if (fchmod(account->sums_fd, 0644) < 0 || flock(joined, LOCK_SH | LOCK_NB) < 0)
		return -errno;
	*ret_joined = take_fd(&joined);
	sums_read(account);
	return 0;
}

static bool machine_is_gone(int machine_fd)
{
	struct stat stat;

	return fstat(machine_fd, &stat) < 0 || !stat.st_nlink;
}

int account_join(int machine_fd, struct account *ret, int *ret_joined)
{
	int r;

	do {
		*ret = ACCOUNT_NONE;
		r = own_open(machine_fd, ret);
		if (r >= 0)
			r = files_open(ret, ret_joined);
		if (r >= 0)
			return 0;
		account_close(ret);
	} while (r == -EAGAIN && !machine_is_gone(machine_fd));
	return machine_is_gone(machine_fd) ? -EAGAIN : r;
}

int account_open_locked(int machine_fd, const char *name, int lock, struct account *ret)
{
	struct account account = ACCOUNT_NONE;
	int r = -EINVAL;

	snprintf(account.name, sizeof(account.name), "%s", name);
	account.fd = account_directory(machine_fd, name, O_RDONLY);
	if (account.fd < 0)
		return account.fd;
	if (flock(account.fd, LOCK_EX | lock) < 0) {
		r = -errno;
	} else {
		r = account.sums_fd = account_file(account.fd, SUMS_NAME, O_RDWR);
	}
	if (r < 0) {
		account_close(&account);
		return r;
	}
	sums_read(&account);
	*ret = account;
	return 0;
}

void account_close(struct account *account)
{
	closep(&account->fd);
	closep(&account->sums_fd);
}

void account_lock(struct account *account)
{
	while (flock(account->fd, LOCK_EX) < 0 && errno == EINTR)
		continue;
	if (account->sums_fd >= 0)
		sums_read(account);
}

void account_unlock(struct account *account)
{
	account_publish(account);
	flock(account->fd, LOCK_UN);
}

void account_publish(struct account *account)
{
	if (pwrite(account->sums_fd, &account->sums, sizeof(account->sums), 0) !=
	    sizeof(account->sums))
		(void)!ftruncate(account->sums_fd, 0);
}

/*
 * Whether a process has the file of memory or of a book open for writing, or has a
 * mapping of such a description. Where the kernel does not say, there is a holder.
 */
static bool is_held(const struct account *account, const char *name)
{
	_cleanup_close_ int fd = account_file(account->fd, name, O_RDONLY);

	if (fd < 0)
		return true;
	/*
	 * The file may be another user's, who can break the lease at once: by default
	 * with SIGIO, which kills. SIGURG is ignored.
	 */
	if (fcntl(fd, F_SETSIG, SIGURG) < 0 || fcntl(fd, F_SETLEASE, F_RDLCK) < 0)
		return true;
	/* To close is not enough: a process forked meanwhile has the descriptor, too. */
	fcntl(fd, F_SETLEASE, F_UNLCK);
	return false;
}

bool account_reap(struct account *account, const char *name)
{
	return !is_held(account, name) && unlinkat(account->fd, name, 0) >= 0;
}

/* Whether a file adds to the sums. */
static bool is_counted(const char *name)
{
	uint64_t size;
	int device;

	return account_parse_memory(name, &device, &size) || residency_is(name);
}

/* Adds what such a file adds. */
static void file_count(const struct account *account, const char *name, struct sums *sums)
{
	uint64_t size;
	int device;

	if (account_parse_memory(name, &device, &size))
		sums_add(&sums->used[device], size);
	else
		residency_count(account->fd, name, sums);
}

/* Under the lock: takes a file without a holder, and what it adds to the sums. */
static void file_give(struct account *account, const char *name)
{
	struct sums gone = { 0 };

	file_count(account, name, &gone);
	if (!account_reap(account, name))
		return;
	for (int i = 0; i < OPTIONS_MAX_DEVICES; i++)
		sums_take(&account->sums.used[i], gone.used[i]);
	sums_take(&account->sums.managed, gone.managed);
}

void account_sweep(struct account *account)
{
	DIR *dir = fdopendir(openat(account->fd, ".", O_RDONLY | O_CLOEXEC));
	struct dirent *entry;

	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		if (!is_counted(entry->d_name) || is_held(account, entry->d_name))
			continue;
		account_lock(account);
		file_give(account, entry->d_name);
		account_unlock(account);
	}
	closedir(dir);
}

void account_scan(struct account *account)
{
	struct sums found = { .clock = account->sums.clock };
	DIR *dir = fdopendir(openat(account->fd, ".", O_RDONLY | O_CLOEXEC));
	struct dirent *entry;

	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (is_counted(entry->d_name) && !account_reap(account, entry->d_name))
			file_count(account, entry->d_name, &found);
	closedir(dir);
	account->sums = found;
	account_publish(account);
}

/*
 * Opens a file to read. The lookup takes no lock: one that may wait for the directory's
 * waits for as long as the directory's user likes. Such a lookup fails where the user has
 * removed the file, and sometimes during a rename anywhere: hence the tries.
 */
static int file_open_cached(int dir_fd, const char *name)
{
	struct open_how how = {
		.flags = O_RDONLY | FILE_FLAGS,
		.resolve = RESOLVE_CACHED,
	};
	long fd = -1;

	for (int tried = 0; tried < CACHED_TRIES; tried++) {
		fd = syscall(SYS_openat2, dir_fd, name, &how, sizeof(how));
		if (fd >= 0 || errno != EAGAIN)
			break;
	}
	/*
	 * Before Linux 5.12, or under a filter that does not know the call: an open that
	 * a user can hold up is better than memory that nobody counts.
	 */
	if (fd < 0 && (errno == ENOSYS || errno == EINVAL || errno == EPERM))
		return account_file(dir_fd, name, O_RDONLY);
	return file_check((int)fd);
}

/* To read a file of a tmpfs takes no lock that its owner can hold. */
bool account_look(int machine_fd, const char *name, struct sums *ret)
{
	_cleanup_close_ int fd = account_directory(machine_fd, name, O_PATH);
	_cleanup_close_ int sums_fd = fd < 0 ? -1 : file_open_cached(fd, SUMS_NAME);

	return sums_fd >= 0 && pread(sums_fd, ret, sizeof(*ret), 0) == sizeof(*ret);
}

static const char *const names[] = { SUMS_NAME, JOINED_NAME, RECOUNT_ASK, RECOUNT_COUNTED,
				     RECOUNT_COUNTING };

static bool is_of_accounts(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

/* Removes files without a holder. Returns: whether these were all. */
static bool account_empty(struct account *account)
{
	DIR *dir = fdopendir(openat(account->fd, ".", O_RDONLY | O_CLOEXEC));
	struct dirent *entry;
	bool held = false;

	if (!dir)
		return false;
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || is_of_accounts(entry->d_name))
			continue;
		held |= !is_counted(entry->d_name) ||
			!account_reap(account, entry->d_name);
	}
	closedir(dir);
	return !held;
}

void account_remove(int machine_fd, struct account *account)
{
	if (!account_empty(account))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		unlinkat(account->fd, names[i], 0);
	unlinkat(machine_fd, account->name, AT_REMOVEDIR);
}

void account_clear(int machine_fd, const char *name)
{
	struct account account = ACCOUNT_NONE;
	_cleanup_close_ int joined = -1;

	snprintf(account.name, sizeof(account.name), "%s", name);
	account.fd = account_directory(machine_fd, name, O_RDONLY);
	if (account.fd < 0)
		return;
	if (flock(account.fd, LOCK_EX | LOCK_NB) >= 0) {
		joined = account_file(account.fd, JOINED_NAME, O_RDONLY);
		if (joined == -ENOENT || flock(joined, LOCK_EX | LOCK_NB) >= 0)
			account_remove(machine_fd, &account);
	}
	account_close(&account);
}

bool account_is_used(int machine_fd, const char *name)
{
	_cleanup_close_ int fd = account_directory(machine_fd, name, O_RDONLY);
	_cleanup_close_ int joined = -1;

	if (fd < 0)
		return fd == -EACCES;
	joined = account_file(fd, JOINED_NAME, O_RDONLY);
	if (joined < 0)
		return joined != -ENOENT;
	return flock(joined, LOCK_EX | LOCK_NB) < 0;
}

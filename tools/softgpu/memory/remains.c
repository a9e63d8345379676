/* SPDX-License-Identifier: MIT */
#include "remains.h"

#include "account.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/*
 * Whether processes of root use the machine. Their counts make the sums of all accounts
 * right, but only with the locks, and to clear an account takes the lock of it.
 */
static bool machine_is_roots(int fd)
{
	struct accounts accounts;
	const char *name;
	bool roots = false;
	uid_t uid;

	accounts_open(&accounts, fd);
	while (!roots && (name = accounts_next(&accounts, &uid)))
		roots = uid == 0 && account_is_used(fd, name);
	accounts_close(&accounts);
	return roots;
}

/* While root uses the machine, nothing is removed. */
static void machine_clear(int parent_fd, const char *name)
{
	_cleanup_close_ int fd =
		openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct accounts accounts;
	struct stat stat;
	const char *account;
	uid_t uid;

	/* In a machine of somebody else, no process but root's has an account. */
	if (fd < 0 || fstat(fd, &stat) < 0 ||
	    (geteuid() != 0 && stat.st_uid != 0 && stat.st_uid != geteuid()))
		return;
	if (machine_is_roots(fd))
		return;
	accounts_open(&accounts, fd);
	while ((account = accounts_next(&accounts, &uid)))
		if (geteuid() == 0 || uid == geteuid())
			account_clear(fd, account);
	accounts_close(&accounts);
	unlinkat(parent_fd, name, AT_REMOVEDIR);
}

void remains_clear(void)
{
	struct dirent *entry;
	DIR *dir = opendir(options.directory);

	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (!strncmp(entry->d_name, REMAINS_PREFIX, strlen(REMAINS_PREFIX)))
			machine_clear(dirfd(dir), entry->d_name);
	closedir(dir);
}

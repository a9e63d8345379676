/* SPDX-License-Identifier: MIT */
/* Where the ticket socket of a mount is. */
#include "tickets.h"

#include "base/def.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Room is left for the number of a process and of a user behind the path. */
#define SOCKET_PATH_MAX 85

/* A folder of our own. A link or somebody else's is no place for a socket. */
static bool is_ours(const char *path)
{
	struct stat stat;

	return lstat(path, &stat) == 0 && S_ISDIR(stat.st_mode) &&
	       stat.st_uid == geteuid();
}

/* Nobody else may list the folder, since a program that lists a folder can keep its lock. */
#define FOLDER_MODE 0711

/* A folder that is there is not made: mkdir(2) would wait for the lock of /run. */
static bool make_folder(const char *path)
{
	if (!is_ours(path))
		(void)mkdir(path, FOLDER_MODE);
	return is_ours(path) && chmod(path, FOLDER_MODE) == 0;
}

/* With a name that nobody could take before; one such folder of a user is enough. */
static bool make_new_folder(char *path)
{
	glob_t found = { 0 };
	bool made = false;

	if (glob(path, GLOB_NOSORT, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc && !made; i++) {
			made = make_folder(found.gl_pathv[i]);
			if (made)
				strcpy(path, found.gl_pathv[i]);
		}
	}
	globfree(&found);
	if (made)
		return true;
	memset(path + strlen(path) - 6, 'X', 6);
	return mkdtemp(path) && chmod(path, FOLDER_MODE) == 0;
}

/* Returns: the folder; NULL: no place, or no memory. */
static char *find_folder(void)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	_cleanup_free_ char *folder = NULL;
	int r;

	if (geteuid() == 0)
		r = asprintf(&folder, "/run/gpumem");
	else if (runtime && runtime[0] == '/')
		r = asprintf(&folder, "%s/gpumem", runtime);
	else
		r = asprintf(&folder, "/tmp/gpumem-%u", geteuid());
	if (r >= 0 && make_folder(folder))
		return take_ptr(folder);
	if (r >= 0)
		free(folder);
	/* Anybody may have laid out a folder in /tmp. */
	r = asprintf(&folder, "/tmp/gpumem-%u-??????", geteuid());
	if (r < 0)
		folder = NULL;
	return folder && make_new_folder(folder) ? take_ptr(folder) : NULL;
}

char *tickets_path(const char *mountpoint, struct text *why)
{
	_cleanup_free_ char *folder = find_folder();
	char *path = NULL;
	int r;

	if (!folder) {
		text_printf(
			why,
			"ticket socket: no folder for it can be made in /tmp (%s): name "
			"a place with --socket",
			strerror(errno));
		return NULL;
	}
	while (*mountpoint == '/')
		mountpoint++;
	/* The path of a socket is short; the hash keeps shortened names apart. */
	if (strlen(folder) + strlen(mountpoint) < SOCKET_PATH_MAX)
		r = asprintf(&path, "%s/%s", folder, *mountpoint ? mountpoint : "root");
	else
		r = asprintf(
			&path, "%s/%.24s-%016llx", folder, mountpoint,
			(unsigned long long)text_hash(mountpoint, strlen(mountpoint)));
	if (r < 0)
		return NULL;
	for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/'));)
		*slash = '-';
	return path;
}

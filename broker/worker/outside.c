/* SPDX-License-Identifier: MIT */
#include "worker/outside.h"

#include <errno.h>
#include <fcntl.h>
#include <gpumem/wire.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/def.h"
#include "base/descriptor.h"

_Noreturn static void answer(int error, int fd)
{
	_exit(descriptor_send(WIRE_SOCKET_FD, &error, sizeof(error), fd) < 0
		      ? EXIT_FAILURE
		      : EXIT_SUCCESS);
}

_Noreturn void outside_run_open(const char *path)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC), error = fd < 0 ? errno : 0;

	answer(error, fd);
}

static int write_synced(int fd)
{
	struct stat stat;
	off_t at = 0;

	if (fstat(WIRE_STAGING_FD, &stat) < 0)
		return -errno;
	while (at < stat.st_size) {
		if (sendfile(fd, WIRE_STAGING_FD, &at, (size_t)(stat.st_size - at)) < 0)
			return -errno;
	}
	return fsync(fd) < 0 ? -errno : 0;
}

/* A rename lasts once the folder is on the disk, too. */
static int sync_folder(const char *path)
{
	_cleanup_free_ char *folder = strdup(path);
	_cleanup_close_ int fd = -1;
	char *slash;

	if (!folder)
		return -ENOMEM;
	slash = strrchr(folder, '/');
	slash[slash == folder] = '\0';
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

static int replace(const char *path)
{
	_cleanup_free_ char *fresh = NULL;
	_cleanup_close_ int fd = -1;
	int r;

	if (asprintf(&fresh, "%s.new", path) < 0)
		return -ENOMEM;
	(void)unlink(fresh);
	fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	r = write_synced(fd);
	if (r == 0 && rename(fresh, path) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlink(fresh);
		return r;
	}
	return sync_folder(path);
}

/* Ends with the broker, since the next one may have the same file replaced. */
_Noreturn void outside_run_replace(const char *path)
{
	char byte;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The broker has the other end, unless it died before. */
	if (recv(WIRE_SOCKET_FD, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
		_exit(EXIT_FAILURE);
	answer(-replace(path), -1);
}

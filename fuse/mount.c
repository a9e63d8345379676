/* SPDX-License-Identifier: MIT */
#include "mount.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

extern char **environ;

static void detach_as_user(const char *path)
{
	char *const argv[] = {
		"fusermount3", "-u", "-q", "-z", "--", (char *)path, NULL
	};
	pid_t pid;

	if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) == 0)
		waitpid(pid, NULL, 0);
}

void mount_detach(const char *path)
{
	if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) && errno == EPERM)
		detach_as_user(path);
}

int mount_prepare(const char *mountpoint, char **ret_path, struct text *why)
{
	struct stat stat_;
	int error = 0;

	/* ENOTCONN: a broker was killed here. ENOENT and such are told below. */
	if (stat(mountpoint, &stat_) && errno == ENOTCONN)
		mount_detach(mountpoint);
	if (stat(mountpoint, &stat_))
		error = -errno;
	else if (!S_ISDIR(stat_.st_mode))
		error = -ENOTDIR;
	if (!error) {
		*ret_path = realpath(mountpoint, NULL);
		error = *ret_path ? 0 : -errno;
	}
	if (error)
		text_printf(why, "mount point %s: %s", mountpoint, strerror(-error));
	return error;
}

/*
 * fuse_session_unmount() would unmount the path again, and another broker may have been
 * started there since, unless its descriptor says that the connection is gone: the end of
 * a pipe that nobody reads does.
 */
void mount_forget(struct fuse_session *session)
{
	int fd = fuse_session_fd(session);
	int ends[2];

	if (fd < 0 || pipe2(ends, O_CLOEXEC))
		return;
	close(ends[0]);
	dup3(ends[1], fd, O_CLOEXEC);
	close(ends[1]);
	fuse_session_unmount(session);
}

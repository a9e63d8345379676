/* SPDX-License-Identifier: MIT */
#include "mount.h"

#include "base/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x4000U
#endif

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

/* Asks only the kernel: a broker could not answer before serving. */
static int mount_look(struct mount *mount, int fd, const char *path)
{
	struct statx stat;

	if (statx(fd, path, AT_EMPTY_PATH | AT_STATX_DONT_SYNC | AT_SYMLINK_NOFOLLOW,
		  STATX_MNT_ID | STATX_MNT_ID_UNIQUE, &stat))
		return -errno;
	mount->device = makedev(stat.stx_dev_major, stat.stx_dev_minor);
	mount->id = stat.stx_mnt_id;
	mount->unique = stat.stx_mask & STATX_MNT_ID_UNIQUE;
	return 0;
}

int mount_note(struct mount *ret_mount, const char *path)
{
	ret_mount->path = path;
	return mount_look(ret_mount, AT_FDCWD, path);
}

/*
 * The descriptor holds the mount, so the mount compared is the mount taken away. Before
 * Linux 6.8 a new mount may get the number of an ended mount.
 */
void mount_detach(const struct mount *mount, bool has_ended)
{
	_cleanup_close_ int fd = open(mount->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct mount now = { 0 };
	char path[40];

	if (fd < 0 || mount_look(&now, fd, "") || now.device != mount->device ||
	    now.id != mount->id || (has_ended && !mount->unique))
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (umount2(path, MNT_DETACH) && errno == EPERM)
		detach_as_user(mount->path);
}

/* A mount left by a killed broker. */
static void detach_dead(const char *path)
{
	if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) && errno == EPERM)
		detach_as_user(path);
}

/* Opens a directory to see whether the mount answers: the kernel may remember the stat(2)
 * of the root of a dead mount. Returns: 0; -errno. */
static int try_directory(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : 0;
}

/* Whether a broker is mounted right there. */
static bool is_served(const char *path)
{
	FILE *mounts = proc_fopen("self/mounts");
	const struct mntent *entry;
	bool served = false;

	if (!mounts)
		return false;
	while (!served && (entry = getmntent(mounts)))
		served = strcmp(entry->mnt_type, "fuse.gpumemd") == 0 &&
			 strcmp(entry->mnt_dir, path) == 0;
	endmntent(mounts);
	return served;
}

/* Number of allocations of a broker, as far as this user can see. */
static unsigned int count_allocations(const char *mountpoint)
{
	_cleanup_free_ char *path = NULL;
	const struct dirent *entry;
	unsigned int n = 0;
	DIR *folder;

	if (asprintf(&path, "%s/allocations", mountpoint) < 0)
		return 0;
	folder = opendir(path);
	while (folder && (entry = readdir(folder)))
		n += entry->d_name[0] != '.';
	if (folder)
		closedir(folder);
	return n;
}

static void explain_served(const char *mountpoint, struct text *why)
{
	unsigned int n = count_allocations(mountpoint);

	text_printf(
		why,
		"mount point %s: a broker is mounted there already; `fusermount3 -u %s` "
		"ends it",
		mountpoint, mountpoint);
	if (n > 0)
		text_printf(why, " and frees its %u allocation%s", n, n == 1 ? "" : "s");
}

int mount_prepare(const char *mountpoint, char **ret_path, struct text *why)
{
	int error = try_directory(mountpoint);

	/* A broker was killed here. */
	if (error == -ENOTCONN) {
		detach_dead(mountpoint);
		error = try_directory(mountpoint);
	}
	if (!error) {
		*ret_path = realpath(mountpoint, NULL);
		error = *ret_path ? 0 : -errno;
	}
	if (!error && is_served(*ret_path)) {
		explain_served(mountpoint, why);
		free(take_ptr(*ret_path));
		return -EBUSY;
	}
	if (error)
		text_printf(why, "mount point %s: %s", mountpoint, strerror(-error));
	return error;
}

/*
 * fuse_session_unmount() would unmount the path again, where another broker may be
 * mounted by now, unless the session's descriptor reports the end of the connection: a
 * pipe without a reader does.
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

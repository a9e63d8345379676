/* SPDX-License-Identifier: MIT */
/*
 * A file system for tests: the files of a folder, without subfolders. It makes no file
 * without a name, as NFS. Bytes of files named `broken` can't be read from the 8th MiB
 * on. A read of a file named `stuck` is never answered, nor is the flush of a file named
 * `clinging`: the folder then has a file of that name with `.in_hand` behind it, and
 * until this program is killed, nobody can end the process that asks. A read of a file
 * named `error-N` fails with the error N.
 *
 *	brittle FOLDER MOUNTPOINT
 */
#define FUSE_USE_VERSION 312

#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BROKEN_FROM (8 << 20)

static int folder;

/* A path of the mount in the folder. */
static const char *inside(const char *path)
{
	return path[1] ? path + 1 : ".";
}

static int result(long r)
{
	return r < 0 ? -errno : (int)r;
}

/* The kernel has given the request to this program, and waits for the answer. */
static void never_answer(const char *path)
{
	char name[300];
	int fd;

	snprintf(name, sizeof(name), "%s.in_hand", inside(path));
	fd = openat(folder, name, O_WRONLY | O_CREAT, 0644);
	if (fd < 0)
		_exit(1);
	close(fd);
	signal(SIGTERM, SIG_DFL);
	for (;;)
		pause();
}

static int do_getattr(const char *path, struct stat *stat, struct fuse_file_info *info)
{
	(void)info;
	return result(fstatat(folder, inside(path), stat, AT_SYMLINK_NOFOLLOW));
}

static int do_open(const char *path, struct fuse_file_info *info)
{
	int fd = openat(folder, inside(path), info->flags & ~O_DIRECT);

	/* Whoever waits for a page of the cache can be ended. */
	info->direct_io = strstr(path, "stuck") != NULL;
	info->fh = (uint64_t)fd;
	return fd < 0 ? -errno : 0;
}

static int do_create(const char *path, mode_t mode, struct fuse_file_info *info)
{
	int fd = openat(folder, inside(path), info->flags & ~O_DIRECT, mode);

	info->fh = (uint64_t)fd;
	return fd < 0 ? -errno : 0;
}

static int do_read(const char *path, char *bytes, size_t size, off_t offset,
		   struct fuse_file_info *info)
{
	int error;

	if (strstr(path, "stuck"))
		never_answer(path);
	if (sscanf(path, "/error-%d", &error) == 1)
		return -error;
	if (strstr(path, "broken") && offset + (off_t)size > BROKEN_FROM)
		return -EIO;
	return result(pread((int)info->fh, bytes, size, offset));
}

static int do_write(const char *path, const char *bytes, size_t size, off_t offset,
		    struct fuse_file_info *info)
{
	(void)path;
	return result(pwrite((int)info->fh, bytes, size, offset));
}

static int do_chmod(const char *path, mode_t mode, struct fuse_file_info *info)
{
	(void)info;
	return result(fchmodat(folder, inside(path), mode, 0));
}

static int do_rename(const char *from, const char *to, unsigned int flags)
{
	return flags ? -EINVAL
		     : result(renameat(folder, inside(from), folder, inside(to)));
}

static int do_unlink(const char *path)
{
	return result(unlinkat(folder, inside(path), 0));
}

static int do_fsync(const char *path, int data, struct fuse_file_info *info)
{
	(void)path;
	(void)data;
	return result(fsync((int)info->fh));
}

static int do_flush(const char *path, struct fuse_file_info *info)
{
	(void)info;
	if (strstr(path, "clinging"))
		never_answer(path);
	return 0;
}

static int do_release(const char *path, struct fuse_file_info *info)
{
	(void)path;
	close((int)info->fh);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct fuse_operations operations = {
		.getattr = do_getattr,
		.open = do_open,
		.create = do_create,
		.read = do_read,
		.write = do_write,
		.chmod = do_chmod,
		.rename = do_rename,
		.unlink = do_unlink,
		.flush = do_flush,
		.fsync = do_fsync,
		.release = do_release,
	};
	char *arguments[] = { argv[0], "-f", argv[argc - 1], "-o", "allow_other", NULL };
	bool is_root = geteuid() == 0; /* and serves all users */

	if (argc != 3)
		return 2;
	folder = open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0) {
		perror(argv[1]);
		return 1;
	}
	return fuse_main(is_root ? 5 : 3, arguments, &operations, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * The process of files runs as its user, so the kernel checks the user's right to each
 * file. Neither the broker nor a worker touches the file: a file system may hang, or be
 * the broker's own mount.
 *
 * A path may lead to anything. So the kind of the file is looked at before it is opened:
 * opening a device can have effects, and opening a FIFO can wait for ever. A file of a
 * broker's mount is refused, since its bytes may wait for this very request.
 *
 * A saved file has no name until all its bytes are on the disk, so a failure leaves the
 * old file as it was and nothing to tidy up.
 */
#include "worker/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#define N_NAMES	    100 /* tried for a file without O_TMPFILE */
#define N_LOOKS	    100 /* at a file that is replaced meanwhile */
#define ACCESS_LIST "system.posix_acl_access"

/* ---- opening ---- */

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev;
}

/* Whether the file is in a mount of gpumemd, also through a bind mount. */
static bool device_is_broker(dev_t device)
{
	_cleanup_free_ char *line = NULL;
	unsigned int major, minor;
	bool found = false;
	size_t size = 0;
	FILE *table;

	table = fopen("/proc/self/mountinfo", "re");
	if (!table)
		return false;
	while (!found && getline(&line, &size, table) > 0)
		found = strstr(line, " - fuse.gpumemd ") &&
			sscanf(line, "%*u %*u %u:%u", &major, &minor) == 2 &&
			device == makedev(major, minor);
	fclose(table);
	return found;
}

/*
 * Whether the file is the broker's output, which this process has open: /proc/self/fd
 * leads there past folders that are closed to the user.
 */
static bool is_own_output(const struct stat *stat)
{
	struct stat own;

	for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
		if (fstat(fd, &own) == 0 && is_same_file(&own, stat))
			return true;
	return false;
}

/* Returns: WIRE_FILE_DONE for a file that can be used, else how the opening ends. */
static enum wire_file_end file_check(const struct stat *stat, int *ret_error)
{
	*ret_error = S_ISDIR(stat->st_mode) ? EISDIR : EINVAL;
	if (!S_ISREG(stat->st_mode))
		return WIRE_FILE_NOT_REGULAR;
	if (device_is_broker(stat->st_dev))
		return WIRE_FILE_IN_MOUNT;
	*ret_error = EACCES;
	if (is_own_output(stat))
		return WIRE_FILE_NOT_OPENED;
	*ret_error = 0;
	return WIRE_FILE_DONE;
}

/*
 * Opens a file that is there. Returns: WIRE_FILE_DONE with *ret_fd, else how the
 * opening ends.
 */
static enum wire_file_end file_open(const char *path, int flags, int *ret_fd,
				    struct stat *ret_stat, int *ret_error)
{
	_cleanup_close_ int fd = -1;
	enum wire_file_end end;

	*ret_error = stat(path, ret_stat) < 0 ? errno : 0;
	if (*ret_error)
		return WIRE_FILE_NOT_OPENED;
	end = file_check(ret_stat, ret_error);
	if (end != WIRE_FILE_DONE)
		return end;
	/* O_NONBLOCK: another file may stand there by now. */
	fd = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, ret_stat) < 0) {
		*ret_error = errno;
		return WIRE_FILE_NOT_OPENED;
	}
	end = file_check(ret_stat, ret_error);
	if (end == WIRE_FILE_DONE)
		*ret_fd = take_fd(&fd);
	return end;
}

/* The same file with other flags. Returns: a descriptor; -1. */
static int file_again(int fd, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, flags | O_CLOEXEC);
}

enum wire_file_end file_open_to_load(struct file *file,
				     const struct wire_request *request,
				     const struct wire_file_open *wish, int *ret_error)
{
	uint64_t size, left, length = wish->length;
	enum wire_file_end end;
	struct stat stat;

	end = file_open(wish->path, O_RDONLY, &file->fd, &stat, ret_error);
	if (end != WIRE_FILE_DONE)
		return end;
	if (wish->inode && (stat.st_ino != wish->inode || stat.st_dev != wish->device)) {
		*ret_error = ESTALE;
		return WIRE_FILE_ANOTHER;
	}
	size = (uint64_t)stat.st_size;
	left = size - MIN(request->source, size);
	file->bytes = request->flags & WIRE_TO_END ? MIN(left, length) : length;
	if (!left || left < file->bytes ||
	    (request->flags & WIRE_TO_END && left > length)) {
		file->bytes = size;
		*ret_error = ERANGE;
		return WIRE_FILE_OUT_OF_RANGE;
	}
	file->direct_fd = file_again(file->fd, O_RDONLY | O_DIRECT);
	return WIRE_FILE_DONE;
}

/* ---- saving ---- */

/*
 * Where the open file is, without symbolic links at the end. Returns: 0; -errno; -ESTALE
 * where another file is there by now, or none.
 */
static int file_place(int fd, const struct stat *stat, char path[WIRE_PATH_SIZE])
{
	struct stat there;
	char link[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, WIRE_PATH_SIZE - 1);
	if (n < 0)
		return -errno;
	path[n] = '\0';
	/* Linux calls a file without a name `PATH (deleted)`. */
	return lstat(path, &there) == 0 && is_same_file(&there, stat) ? 0 : -ESTALE;
}

/*
 * An old file at the path gives the new one its mode and its place, also behind a
 * symbolic link. The kernel checks that the user may write the old file. Returns: as
 * file_open(); *ret_error is ESTALE where the old file was replaced meanwhile.
 */
static enum wire_file_end draft_look(struct draft *draft, const char *path,
				     int *ret_error)
{
	_cleanup_close_ int fd = -1;
	enum wire_file_end end;
	struct stat stat;

	end = file_open(path, O_WRONLY, &fd, &stat, ret_error);
	strcpy(draft->path, path);
	if (end == WIRE_FILE_NOT_OPENED && *ret_error == ENOENT &&
	    lstat(path, &stat) < 0 && errno == ENOENT) {
		*ret_error = 0;
		return WIRE_FILE_DONE;
	}
	if (end != WIRE_FILE_DONE)
		return end;
	*ret_error = -file_place(fd, &stat, draft->path);
	if (*ret_error)
		return WIRE_FILE_NOT_OPENED;
	draft->mode = stat.st_mode & 0777;
	draft->replaces = true;
	draft->group = stat.st_gid;
	draft->list_length = fgetxattr(fd, ACCESS_LIST, draft->list, FILE_LIST_MAX);
	/* With an access list, the bits of the group are the most that the list gives. */
	if (draft->list_length < 0 && errno == ERANGE)
		draft->mode &= ~(mode_t)S_IRWXG;
	return WIRE_FILE_DONE;
}

/* Other savers may replace the file again and again. */
static enum wire_file_end draft_find(struct draft *draft, const char *path,
				     int *ret_error)
{
	enum wire_file_end end;

	for (unsigned int i = 0; i < N_LOOKS; i++) {
		end = draft_look(draft, path, ret_error);
		if (end != WIRE_FILE_NOT_OPENED || *ret_error != ESTALE)
			break;
	}
	return end;
}

/* A name in the folder that nothing has, as far as the try says. */
static void draft_try_name(struct draft *draft, unsigned int try)
{
	draft->name[0] = '\0';
	snprintf(draft->name, sizeof(draft->name), "%s/.gpumem-%d-%u", draft->folder,
		 getpid(), try);
}

/*
 * Lets the users in that the file before let in: its mode would mean others with another
 * group. Returns: 0; -errno.
 */
static int draft_set_rights(const struct draft *draft, int fd)
{
	mode_t mode = draft->mode;
	bool kept = !draft->replaces || fchown(fd, (uid_t)-1, draft->group) == 0;

	if (kept && draft->list_length > 0)
		kept = fsetxattr(fd, ACCESS_LIST, draft->list, (size_t)draft->list_length,
				 0) == 0;
	if (!kept)
		mode &= ~(mode_t)S_IRWXG;
	/* The umask here is the broker's. */
	return fchmod(fd, mode) < 0 ? -errno : 0;
}

/* Makes the file, with a name only where there is no way without. Returns: 0; -errno. */
static int draft_make(struct draft *draft, int *ret_fd)
{
	static _Atomic unsigned int tries;
	const char *slash = strrchr(draft->path, '/');
	struct stat status;

	snprintf(draft->folder, sizeof(draft->folder), "%.*s",
		 (int)MAX(slash - draft->path, 1), draft->path);
	if (strlen(draft->folder) > sizeof(draft->folder) - 64)
		return -ENAMETOOLONG;
	if (stat(draft->folder, &status) == 0 && device_is_broker(status.st_dev))
		return -EINVAL;
	*ret_fd =
		open(draft->folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, S_IRUSR | S_IWUSR);
	for (int i = 0; i < N_NAMES && *ret_fd < 0; i++) {
		if (errno != EOPNOTSUPP && errno != EISDIR && errno != EEXIST)
			return -errno;
		draft_try_name(draft, atomic_fetch_add(&tries, 1));
		*ret_fd = open(draft->name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC,
			       S_IRUSR | S_IWUSR);
	}
	if (*ret_fd < 0) {
		draft->name[0] = '\0';
		return -errno;
	}
	return draft_set_rights(draft, *ret_fd);
}

/* Gives the complete file its name. Returns: 0; -errno. */
static int draft_keep(struct draft *draft, int fd)
{
	static _Atomic unsigned int tries;
	char link[64];
	int r = 0;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	for (int i = 0; i < N_NAMES && !draft->name[0]; i++) {
		draft_try_name(draft, atomic_fetch_add(&tries, 1));
		r = linkat(AT_FDCWD, link, AT_FDCWD, draft->name, AT_SYMLINK_FOLLOW);
		if (r == 0 || errno != EEXIST)
			break;
		draft->name[0] = '\0';
	}
	if (r < 0) {
		draft->name[0] = '\0';
		return -errno;
	}
	if (rename(draft->name, draft->path) < 0)
		return -errno;
	draft->name[0] = '\0';
	return 0;
}

enum wire_file_end file_open_to_save(struct file *file, const char *path, mode_t mode,
				     uint64_t length, int *ret_error)
{
	struct draft *draft = &file->draft;
	enum wire_file_end end;
	int r;

	file->bytes = length;
	draft->mode = mode;
	end = draft_find(draft, path, ret_error);
	if (end != WIRE_FILE_DONE)
		return end;
	r = draft_make(draft, &file->fd);
	*ret_error = -r;
	if (r == 0)
		return WIRE_FILE_DONE;
	return r == -EINVAL ? WIRE_FILE_IN_MOUNT : WIRE_FILE_NOT_OPENED;
}

int file_keep(struct file *file, bool (*is_over)(const void *userdata),
	      const void *userdata)
{
	if (fsync(file->fd) < 0)
		return -errno;
	/* The caller has been told that nothing was saved. */
	if (is_over(userdata))
		return -ECANCELED;
	return draft_keep(&file->draft, file->fd);
}

void file_close(struct file *file)
{
	if (file->draft.name[0])
		unlink(file->draft.name);
	file->draft.name[0] = '\0';
	closep(&file->direct_fd);
	closep(&file->fd);
}

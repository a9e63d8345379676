/* SPDX-License-Identifier: MIT */
/*
 * This process runs as its user, so the kernel checks the user's right to each file. The
 * broker never touches the file: a file system may hang, or be the broker's own mount.
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
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "protocol/wire.h"
#include "worker/lanes.h"
#include "worker/worker.h"

#define N_NAMES	    100 /* tried for a file without O_TMPFILE */
#define LIST_MAX    4096
#define ACCESS_LIST "system.posix_acl_access"

/* How the job ends: in the answer's values. Returns: 0. */
static int file_end(struct job *job, uint64_t bytes, enum wire_file_end end, int error)
{
	job->value[0] = bytes;
	job->value[1] = WIRE_FILE_ENDED(end, error);
	return 0;
}

static struct wire_file *file_shared(struct worker *worker, const struct job *job)
{
	return (struct wire_file *)(worker->staging + job->request.offset);
}

/* ---- opening ---- */

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

/* Returns: WIRE_FILE_DONE for a file that can be used, else how the job ends. */
static enum wire_file_end file_check(const struct stat *stat, int *ret_error)
{
	*ret_error = S_ISDIR(stat->st_mode) ? EISDIR : EINVAL;
	if (!S_ISREG(stat->st_mode))
		return WIRE_FILE_NOT_REGULAR;
	if (device_is_broker(stat->st_dev))
		return WIRE_FILE_IN_MOUNT;
	*ret_error = 0;
	return WIRE_FILE_DONE;
}

/*
 * Opens a file that is there. Returns: WIRE_FILE_DONE with *ret_fd, else how the job
 * ends.
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

/* ---- moving ---- */

/* Moves the bytes, and says how that ended. Returns: 0; -errno with a failure. */
static int file_move(struct file_move *move, struct job *job,
		     struct cuda_failure *failure)
{
	__atomic_store_n(&move->shared->total, move->length, __ATOMIC_RELEASE);
	lanes_move(move);
	if (move->error) {
		*failure = move->failure;
		return move->error;
	}
	if (move->file_error == -ENODATA)
		return file_end(job, move->moved, WIRE_FILE_SHORT, ENODATA);
	if (move->file_error)
		return file_end(job, move->moved, WIRE_FILE_NOT_MOVED, -move->file_error);
	if (move->moved < move->length)
		return file_end(job, move->moved, WIRE_FILE_STOPPED, EINTR);
	return file_end(job, move->moved, WIRE_FILE_DONE, 0);
}

int file_load(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	const struct wire_request *request = &job->request;
	_cleanup_close_ int fd = -1, direct_fd = -1;
	struct file_move move = {
		.worker = worker,
		.job = job,
		.shared = file_shared(worker, job),
		.length = request->length,
	};
	char path[WIRE_PATH_SIZE];
	enum wire_file_end end;
	struct stat stat;
	uint64_t left;
	int error;

	memcpy(path, move.shared->path, sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	end = file_open(path, O_RDONLY, &fd, &stat, &error);
	if (end != WIRE_FILE_DONE)
		return file_end(job, 0, end, error);
	left = (uint64_t)stat.st_size - MIN(request->source, (uint64_t)stat.st_size);
	if (request->flags & WIRE_TO_END)
		move.length = MIN(left, request->length);
	if (!left || left < move.length ||
	    (request->flags & WIRE_TO_END && left > request->length))
		return file_end(job, (uint64_t)stat.st_size, WIRE_FILE_OUT_OF_RANGE,
				ERANGE);
	direct_fd = file_again(fd, O_RDONLY | O_DIRECT);
	move.fd = fd;
	move.direct_fd = direct_fd;
	return file_move(&move, job, failure);
}

/* ---- saving ---- */

/* A file that is to stand at a path. */
struct draft {
	char path[WIRE_PATH_SIZE]; /* without symbolic links at its end */
	char folder[WIRE_PATH_SIZE];
	char name[WIRE_PATH_SIZE]; /* of the draft; "": it has no name */
	mode_t mode;
	bool replaces; /* a file that is there, of this group */
	gid_t group;
	char list[LIST_MAX]; /* its access list */
	ssize_t list_length; /* -1: none */
	int fd;
};

/*
 * A file that is there keeps its mode and its place, also behind a symbolic link: the
 * kernel checks that the user may write it. Returns: as file_open().
 */
static enum wire_file_end draft_find(struct draft *draft, const char *path,
				     int *ret_error)
{
	_cleanup_close_ int fd = -1;
	enum wire_file_end end;
	char link[64];
	struct stat stat;
	ssize_t n;

	end = file_open(path, O_WRONLY, &fd, &stat, ret_error);
	strcpy(draft->path, path);
	if (end == WIRE_FILE_NOT_OPENED && *ret_error == ENOENT &&
	    lstat(path, &stat) < 0 && errno == ENOENT) {
		*ret_error = 0;
		return WIRE_FILE_DONE;
	}
	if (end != WIRE_FILE_DONE)
		return end;
	draft->mode = stat.st_mode & 0777;
	draft->replaces = true;
	draft->group = stat.st_gid;
	draft->list_length = fgetxattr(fd, ACCESS_LIST, draft->list, LIST_MAX);
	/* With an access list, the bits of the group are the most that the list gives. */
	if (draft->list_length < 0 && errno == ERANGE)
		draft->mode &= ~(mode_t)S_IRWXG;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, draft->path, sizeof(draft->path) - 1);
	*ret_error = n < 0 ? errno : 0;
	draft->path[MAX(n, 0)] = '\0';
	return n < 0 ? WIRE_FILE_NOT_OPENED : WIRE_FILE_DONE;
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
static int draft_set_rights(const struct draft *draft)
{
	mode_t mode = draft->mode;
	bool kept = !draft->replaces || fchown(draft->fd, (uid_t)-1, draft->group) == 0;

	if (kept && draft->list_length > 0)
		kept = fsetxattr(draft->fd, ACCESS_LIST, draft->list,
				 (size_t)draft->list_length, 0) == 0;
	if (!kept)
		mode &= ~(mode_t)S_IRWXG;
	/* The umask here is the broker's. */
	return fchmod(draft->fd, mode) < 0 ? -errno : 0;
}

/* Makes the file, with a name only where there is no way without. Returns: 0; -errno. */
static int draft_make(struct draft *draft)
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
	draft->fd =
		open(draft->folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, S_IRUSR | S_IWUSR);
	for (int i = 0; i < N_NAMES && draft->fd < 0; i++) {
		if (errno != EOPNOTSUPP && errno != EISDIR && errno != EEXIST)
			return -errno;
		draft_try_name(draft, atomic_fetch_add(&tries, 1));
		draft->fd = open(draft->name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC,
				 S_IRUSR | S_IWUSR);
	}
	if (draft->fd < 0) {
		draft->name[0] = '\0';
		return -errno;
	}
	return draft_set_rights(draft);
}

/* Gives the complete file its name. Returns: 0; -errno. */
static int draft_keep(struct draft *draft)
{
	static _Atomic unsigned int tries;
	char link[64];
	int r = 0;

	if (fsync(draft->fd) < 0)
		return -errno;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", draft->fd);
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

static void draft_deinit(struct draft *draft)
{
	if (draft->name[0])
		unlink(draft->name);
	closep(&draft->fd);
}

static int file_save_to(struct file_move *move, struct job *job, struct draft *draft,
			struct cuda_failure *failure)
{
	int r;

	r = draft_make(draft);
	if (r == -EINVAL)
		return file_end(job, 0, WIRE_FILE_IN_MOUNT, EINVAL);
	if (r < 0)
		return file_end(job, 0, WIRE_FILE_NOT_OPENED, -r);
	move->fd = draft->fd;
	r = file_move(move, job, failure);
	if (r < 0 || job->value[1])
		return r;
	/* The caller has been told that nothing was saved. */
	if (__atomic_load_n(&move->shared->stop, __ATOMIC_RELAXED))
		return file_end(job, move->moved, WIRE_FILE_STOPPED, EINTR);
	r = draft_keep(draft);
	return r < 0 ? file_end(job, move->moved, WIRE_FILE_NOT_KEPT, -r) : 0;
}

int file_save(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	struct file_move move = {
		.worker = worker,
		.job = job,
		.shared = file_shared(worker, job),
		.direct_fd = -1,
		.save = true,
		.length = job->request.length,
	};
	struct draft draft = { .fd = -1,
			       .list_length = -1,
			       .mode = move.shared->mode & 0777 };
	char path[WIRE_PATH_SIZE];
	enum wire_file_end end;
	int error, r;

	memcpy(path, move.shared->path, sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	end = draft_find(&draft, path, &error);
	if (end != WIRE_FILE_DONE)
		return file_end(job, 0, end, error);
	r = file_save_to(&move, job, &draft, failure);
	draft_deinit(&draft);
	return r;
}

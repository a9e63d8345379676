/* SPDX-License-Identifier: MIT */
#include "memory/host_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/def.h"
#include "base/proc.h"

void host_files_init(struct host_files *files)
{
	pthread_mutex_init(&files->lock, NULL);
	files->events = fanotify_init(FAN_CLASS_NOTIF | FAN_CLOEXEC | FAN_NONBLOCK,
				      O_RDWR | O_LARGEFILE | O_CLOEXEC);
}

void host_files_deinit(struct host_files *files)
{
	if (files->events > 0)
		close(files->events);
	pthread_mutex_destroy(&files->lock);
}

/*
 * A hole would take pages out of the file that GPUs have pinned: programs would see other
 * bytes than kernels do. No seal refuses holes and allows shared mappings for writing. An
 * immutable file does: the flag counts for fallocate(2) and MADV_REMOVE, and not for
 * mappings. It takes root and Linux 6.0 with CONFIG_TMPFS_XATTR; docs/sharing.md says so.
 */
void host_file_refuse_holes(int fd)
{
	const int flags = FS_IMMUTABLE_FL;

	(void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

/* ---- opening ---- */

static int open_anew(int fd, int flags)
{
	char path[32];

	snprintf(path, sizeof(path), "self/fd/%d", fd);
	return proc_open(path, flags);
}

static bool is_same_file(int a, int b)
{
	struct stat of_a, of_b;

	return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 &&
	       of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

/*
 * Takes all events, each of which has its file open. Returns: the descriptor of an event
 * of the file (-1: of any); -EMFILE without one.
 */
static int take_events(int events, int fd)
{
	struct fanotify_event_metadata event;
	int taken = -EMFILE;

	while (read(events, &event, sizeof(event)) == (ssize_t)sizeof(event)) {
		if (event.fd < 0)
			continue;
		if (taken < 0 && is_same_file(event.fd, fd))
			taken = event.fd;
		else
			close(event.fd);
	}
	return taken;
}

/*
 * open(2) refuses to open an immutable file for writing. Without the flag for a moment, a
 * program that has the file open could make a hole. fanotify(7) opens the file of an
 * event whatever its flags are.
 */
static int open_by_event(struct host_files *files, int fd)
{
	_cleanup_close_ int opened = -1;
	int taken;

	pthread_mutex_lock(&files->lock);
	if (fanotify_mark(files->events, FAN_MARK_ADD, FAN_OPEN, fd, NULL) < 0) {
		taken = -errno;
	} else {
		opened = open_anew(fd, O_RDONLY);
		(void)fanotify_mark(files->events, FAN_MARK_REMOVE, FAN_OPEN, fd, NULL);
		taken = take_events(files->events, fd);
	}
	pthread_mutex_unlock(&files->lock);
	return taken;
}

int host_file_open(struct host_files *files, int fd, bool write)
{
	int opened = open_anew(fd, write ? O_RDWR : O_RDONLY);

	if (opened >= 0)
		return opened;
	if (!write || errno != EPERM || files->events <= 0)
		return -errno;
	return open_by_event(files, fd);
}

/* An event of an open by somebody else may have come late, and keeps its file. */
void host_files_settle(struct host_files *files)
{
	pthread_mutex_lock(&files->lock);
	take_events(files->events, -1);
	pthread_mutex_unlock(&files->lock);
}

/* Whether the kernel refuses a lease. An open of passthrough counts, too. */
static bool lease_is_refused(int fd, int lease)
{
	int opened = open_anew(fd, O_RDONLY);
	bool refused = opened < 0 || fcntl(opened, F_SETLEASE, lease) < 0;

	closep(&opened);
	return refused;
}

/* The kernel grants a read lease on a file that nobody has open for writing. */
bool host_file_is_open_for_writing(int fd)
{
	return lease_is_refused(fd, F_RDLCK);
}

/* The kernel grants a write lease on a file that nobody else has open. */
bool host_file_is_open(int fd)
{
	return lease_is_refused(fd, F_WRLCK);
}

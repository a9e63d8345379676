/* SPDX-License-Identifier: MIT */
#include "base/proc.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/def.h"

static int root = -1;

/* Returns: -1 where there is none. */
static int own_instance(void)
{
	_cleanup_close_ int context = fsopen("proc", FSOPEN_CLOEXEC);

	if (context < 0 || fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	return fsmount(context, FSMOUNT_CLOEXEC,
		       MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

static void root_open(void)
{
	root = own_instance();
	if (root < 0)
		root = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int proc_root(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, root_open);
	return root;
}

int proc_open(const char *path, int flags)
{
	return openat(proc_root(), path, flags | O_CLOEXEC);
}

FILE *proc_fopen(const char *path)
{
	_cleanup_close_ int fd = proc_open(path, O_RDONLY);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");

	if (file)
		(void)take_fd(&fd);
	return file;
}

bool proc_readlink(const char *path, char *text, size_t size)
{
	ssize_t n = readlinkat(proc_root(), path, text, size - 1);

	text[MAX(n, (ssize_t)0)] = '\0';
	return n > 0;
}

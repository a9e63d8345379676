/* SPDX-License-Identifier: MIT */
#include "proc.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

pid_t proc_parent(pid_t pid, char ret_name[PROC_NAME_SIZE])
{
	char path[64], line[512];
	int parent = 0;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return 0;
	if (fgets(line, sizeof line, file)) {
		char *open = strchr(line, '('), *close = strrchr(line, ')');

		if (open && close && sscanf(close + 1, " %*c %d", &parent) == 1)
			snprintf(ret_name, PROC_NAME_SIZE, "%.*s",
				 (int)(close - open - 1), open + 1);
	}
	fclose(file);
	return parent;
}

bool proc_uid(pid_t pid, uid_t *ret_uid)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	if (stat(path, &st))
		return false;
	*ret_uid = st.st_uid;
	return true;
}

bool proc_real_uid(pid_t pid, uid_t *ret_uid)
{
	char path[64], line[256];
	bool found = false;

	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return false;
	while (!found && fgets(line, sizeof line, file))
		found = sscanf(line, "Uid: %u", ret_uid) == 1;
	fclose(file);
	return found;
}

int proc_open_file(const char *path, int flags)
{
	char again[32];
	struct stat st;

	/* without opening what may be a FIFO or a device */
	_cleanup_close_ int at = open(path, O_PATH | O_CLOEXEC | flags);
	if (at < 0 || fstat(at, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOEXEC;
	snprintf(again, sizeof again, "/proc/self/fd/%d", at);
	int fd = open(again, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int open_range(const char *pid, const struct mapping *mapping)
{
	char path[96];

	snprintf(path, sizeof path, "/proc/%s/map_files/%" PRIx64 "-%" PRIx64, pid,
		 mapping->start, mapping->end);
	return proc_open_file(path, 0);
}

/* Whether the file would have the device and the inode of the mapping. This process maps
 * the file and compares lines of maps: stat() may name another device. */
static bool is_mapped_file(int fd, const struct mapping *mapping)
{
	void *at = mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0);
	struct mapping own;
	struct maps maps;
	bool is = false;

	if (at == MAP_FAILED)
		return false;
	maps_open(&maps, "self");
	while (!is && maps_next(&maps, &own))
		is = own.start == (uintptr_t)at && own.device == mapping->device &&
		     own.inode == mapping->inode;
	maps_close(&maps);
	munmap(at, 1);
	return is;
}

static int open_name(const char *pid, const struct mapping *mapping)
{
	_cleanup_text_ struct text path = TEXT_INIT;

	text_printf(&path, "/proc/%s/root%s", pid, mapping->name);
	_cleanup_close_ int fd = proc_open_file(text_string(&path), O_NOFOLLOW);
	if (fd < 0)
		return fd;
	return is_mapped_file(fd, mapping) ? take_fd(&fd) : -ESTALE;
}

int proc_open_mapped(const char *pid, const struct mapping *mapping)
{
	int fd = open_range(pid, mapping);

	return fd == -EPERM || fd == -EACCES || fd == -ENOENT ? open_name(pid, mapping)
							      : fd;
}

#define WORKER "gpumem-" /* a worker's name begins so; a uid or `mover` follows */

bool proc_is_worker(const char *name)
{
	return !strncmp(name, WORKER, strlen(WORKER));
}

pid_t proc_worker_broker(pid_t pid)
{
	char name[PROC_NAME_SIZE] = "";
	pid_t parent = proc_parent(pid, name);

	return proc_is_worker(name) ? parent : 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * A process that waits for an answer of a filesystem may be deaf to all signals. So the
 * reader must hold nothing of the tracer's: all descriptors are closed but the reader's
 * end of a pipe, and the tracer waits for the reader's end only after the pipe is closed,
 * too.
 */
#include "mount_reader.h"

#include "base/clock.h"
#include "proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define FIRST_WAIT_NS 5000000
#define NAMES_MAX     65536

/* ---- in the child ---- */

/* The first word of a small file as a number. Returns: false for another word. */
static bool read_number(int dir, const char *file, uint64_t *ret_number)
{
	_cleanup_close_ int fd = openat(dir, file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	char text[64], *end;

	if (fd < 0)
		return false;
	ssize_t n = read(fd, text, sizeof text - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	*ret_number = strtoull(text, &end, 0);
	return end != text;
}

/* Writes an allocation, if readable, or a lease of the allocation; named.name has the
 * folders. Returns: false if the tracer reads no more. */
static bool read_allocation(int out, struct named named, int fd, const char *name)
{
	size_t length = strlen(named.name);
	uint64_t owner = 0;

	if (fd < 0 || !read_number(fd, "address", &named.address) || !named.address ||
	    !read_number(fd, "size_bytes", &named.size) ||
	    !read_number(fd, "owner", &owner))
		return true;
	named.owner = (uid_t)owner;
	snprintf(named.name + length, sizeof named.name - length, "%s", name);
	return write(out, &named, sizeof named) == sizeof named;
}

static DIR *open_folder(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? NULL : fdopendir(fd);
}

/* Returns: NULL at the end, where the folder is closed. */
static const char *next_name(DIR *folder)
{
	struct dirent *entry;

	while ((entry = readdir(folder)))
		if (entry->d_name[0] != '.')
			return entry->d_name;
	closedir(folder);
	return NULL;
}

/* The mover in a mount's status, 0 for none. */
static pid_t read_mover(int mount)
{
	int fd = openat(mount, "status", O_RDONLY | O_CLOEXEC), mover = 0;
	FILE *status = fd < 0 ? NULL : fdopen(fd, "r");
	char line[256];

	while (status && fgets(line, sizeof line, status))
		if (sscanf(line, "mover %d", &mover) == 1)
			break;
	if (status)
		fclose(status);
	return mover;
}

/* Returns: 0 for a mount without workers now: then no process needs the mount's names. */
static pid_t read_broker(int mount)
{
	pid_t broker = proc_worker_broker(read_mover(mount));
	DIR *owners = broker ? NULL : open_folder(mount, "owners");
	const char *name;

	while (owners && (name = next_name(owners))) {
		_cleanup_close_ int owner =
			openat(dirfd(owners), name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		uint64_t worker;

		if (!broker && owner >= 0 && read_number(owner, "worker", &worker))
			broker = proc_worker_broker((pid_t)worker);
	}
	return broker;
}

static bool is_allocation(int dir)
{
	struct stat st;

	return !fstatat(dir, "address", &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode);
}

/* Reads a folder, and the folders in it, which named.name may still have room for.
 * Returns: false if no more is to be read. */
static bool read_folder(int out, const struct named *in, int dir, const char *folder,
			size_t *n)
{
	DIR *names = open_folder(dir, folder);
	bool more = true;
	const char *name;

	while (names && more && (name = next_name(names))) {
		_cleanup_close_ int fd =
			openat(dirfd(names), name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		struct named named = *in;
		size_t length = strlen(in->name);

		if (fd >= 0 && !is_allocation(fd)) {
			if (length + strlen(name) + 66 > sizeof named.name)
				continue;
			snprintf(named.name + length, sizeof named.name - length, "%s/",
				 name);
			more = read_folder(out, &named, dirfd(names), name, n);
			continue;
		}
		more = ++*n <= NAMES_MAX && read_allocation(out, named, fd, name);
	}
	if (names && !more)
		closedir(names);
	return more;
}

static void read_allocations(int out, const struct named *named, int mount)
{
	size_t n = 0;

	(void)read_folder(out, named, mount, "allocations", &n);
}

/* Whether a name can't lead out of the mount. */
static bool is_inside(const char *name)
{
	return *name && !strchr("#./", name[0]) && !strstr(name, "/.");
}

/* A line of `leases` begins with the allocation's name (`#ID` of a freed one) and the
 * holder's pid. The name must not lead out of the mount. */
static void read_leases(int out, struct named named, int mount)
{
	_cleanup_close_ int allocations =
		openat(mount, "allocations", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = openat(mount, "leases", O_RDONLY | O_CLOEXEC);
	FILE *leases = fd < 0 ? NULL : fdopen(fd, "r");
	char line[768], name[585];

	for (size_t n = 0; leases && n < NAMES_MAX; n++) {
		if (!fgets(line, sizeof line, leases))
			break;
		if (sscanf(line, "%584s %d", name, &named.holder) != 2 ||
		    !is_inside(name))
			continue;
		_cleanup_close_ int folder =
			openat(allocations, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (!read_allocation(out, named, folder, name))
			break;
	}
	if (leases)
		fclose(leases);
}

/* A mount may say anything: a user's mount can only name memory of a broker of this
 * user. */
static void read_mount(int out, const char *path, dev_t device, uid_t user,
		       enum mount_list list)
{
	_cleanup_close_ int mount = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	uid_t uid;

	/* another mount may cover the path */
	if (mount < 0 || fstat(mount, &st) || st.st_dev != device)
		return;
	struct named named = { .broker = read_broker(mount) };

	if (!named.broker || !proc_uid(named.broker, &uid) || uid != user)
		return;
	if (list == MOUNT_LEASES)
		read_leases(out, named, mount);
	else
		read_allocations(out, &named, mount);
}

_Noreturn static void child(int out, pid_t tracer, const char *path, dev_t device,
			    uid_t user, enum mount_list list)
{
	const struct timespec wait = { .tv_nsec = FIRST_WAIT_NS };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != tracer || dup2(out, 0) < 0 || close_range(1, ~0u, 0))
		_exit(1);
	/* the broker names an allocation only after the worker's answer */
	if (list == MOUNT_ALLOCATIONS)
		nanosleep(&wait, NULL);
	read_mount(0, path, device, user, list);
	_exit(0);
}

/* ---- in the tracer ---- */

int mount_reader_start(struct mount_reader *reader, const char *path, dev_t device,
		       uid_t user, enum mount_list list)
{
	pid_t tracer = getpid();
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	/* only the tracer must never wait */
	fcntl(ends[1], F_SETFL, 0);
	pid_t pid = fork();
	if (pid == 0)
		child(ends[1], tracer, path, device, user, list);
	close(ends[1]);
	if (pid < 0) {
		int error = errno;

		close(ends[0]);
		return -error;
	}
	reader->pid = pid;
	reader->fd = ends[0];
	text_clear(&reader->text);
	return 0;
}

static int left_ms(uint64_t deadline)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	return deadline > now ? (int)((deadline - now) / 1000000) : 0;
}

bool mount_reader_take(struct mount_reader *reader, uint64_t deadline)
{
	struct pollfd poll_fd = { .fd = reader->fd, .events = POLLIN };
	char buffer[16384];
	ssize_t n;

	do {
		while ((n = read(reader->fd, buffer, sizeof buffer)) > 0)
			text_add(&reader->text, buffer, (size_t)n);
		if (n == 0) {
			waitpid(reader->pid, NULL, 0);
			close(reader->fd);
			reader->pid = 0;
			return true;
		}
	} while (deadline && poll(&poll_fd, 1, left_ms(deadline)) == 1);
	return false;
}

void mount_reader_deinit(struct mount_reader *reader)
{
	if (reader->pid) {
		kill(reader->pid, SIGKILL);
		waitpid(reader->pid, NULL, WNOHANG);
		close(reader->fd);
		reader->pid = 0;
	}
	text_deinit(&reader->text);
}

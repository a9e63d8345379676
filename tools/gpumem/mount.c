/* SPDX-License-Identifier: MIT */
#include "mount.h"

#include "command.h"

#include "base/broker_mount.h"
#include "base/error_line.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MS   5000
#define ANSWER_SIZE 65536

/* ---- whether the mount answers ---- */

struct verdict {
	int error;
	char sentence[512];
};

/*
 * In the child: asks each mount in turn, as gpumem_open() will do to find the only one,
 * and notes before whom it asks.
 */
static void ask_all(char *asked)
{
	_cleanup_broker_mounts_ struct broker_mounts mounts = BROKER_MOUNTS(NULL);
	const char *folder;
	struct statx now;

	if (broker_mounts_open(&mounts))
		return;
	while ((folder = broker_mounts_next(&mounts))) {
		snprintf(asked, PATH_MAX, "%s", folder);
		if (faccessat(AT_FDCWD, asked, X_OK, AT_EACCESS) == 0)
			(void)statx(AT_FDCWD, asked, AT_STATX_FORCE_SYNC, STATX_MODE,
				    &now);
	}
}

/* In the child: the first file that the broker itself has to answer for. */
static void ask(struct verdict *verdict, char *asked)
{
	const char *path = getenv("GPUMEM_MOUNT");
	_cleanup_text_ struct text text = TEXT_INIT;
	struct mount mount = MOUNT_CLOSED;

	if (path && *path)
		snprintf(asked, PATH_MAX, "%s", path);
	else
		ask_all(asked);
	verdict->error = gpumem_open(&mount.session, NULL);
	if (verdict->error == 0) {
		mount.path = gpumem_path(mount.session);
		snprintf(asked, PATH_MAX, "%s", mount.path);
		mount.fd = open(mount.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		verdict->error =
			mount.fd < 0 ? -errno : mount_read(&mount, "version", &text);
		if (verdict->error)
			snprintf(verdict->sentence, sizeof verdict->sentence, "%s: %s",
				 mount.path, strerror(-verdict->error));
	} else {
		snprintf(verdict->sentence, sizeof verdict->sentence, "%s",
			 gpumem_error());
	}
}

/* The child keeps nothing of the parent's open: whoever reads the parent's output must
 * not wait for the child. */
_Noreturn static void probe_child(int out, pid_t parent, char *asked)
{
	struct verdict verdict = { 0 };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || dup2(out, 0) < 0 || close_range(1, ~0u, 0))
		_exit(1);
	ask(&verdict, asked);
	_exit(write(0, &verdict, sizeof verdict) != sizeof verdict);
}

static int probe_wait(pid_t child, int fd, const char *asked, struct text *why)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	struct verdict verdict;
	int n;

	while ((n = poll(&poll_fd, 1, ANSWER_MS)) < 0 && errno == EINTR)
		;
	if (n == 0) {
		kill(child, SIGKILL); /* heard when the mount lets go of the child */
		text_add_plain(why, asked);
		text_printf(why,
			    " has not answered for %d seconds: is its gpumemd stopped? "
			    "`fusermount3 -uz MOUNTPOINT` takes a dead mount away",
			    ANSWER_MS / 1000);
		return -ETIMEDOUT;
	}
	ssize_t got = read(fd, &verdict, sizeof verdict);
	waitpid(child, NULL, 0);
	if (got != sizeof verdict) {
		text_printf(why, "the process that asks the mount has failed");
		return -EIO;
	}
	if (verdict.error)
		text_printf(why, "%s", verdict.sentence);
	return verdict.error;
}

/*
 * Whether the mount answers: a child process asks it. A process that waits for a mount
 * may be deaf to all signals, and no command should be.
 *
 * Returns: 0; -ETIMEDOUT and other -errno with a sentence in `why`.
 */
static int mount_probe(struct text *why)
{
	pid_t parent = getpid();
	int ends[2];
	/* The path that the child is asking. */
	char *asked = mmap(NULL, PATH_MAX, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (asked == MAP_FAILED || pipe2(ends, O_CLOEXEC)) {
		int error = errno;

		text_printf(why, "no way to ask a mount: %s", strerror(error));
		if (asked != MAP_FAILED)
			munmap(asked, PATH_MAX);
		return -error;
	}
	fflush(NULL);
	pid_t child = fork();
	if (child == 0)
		probe_child(ends[1], parent, asked);
	close(ends[1]);
	int r = -errno;
	if (child < 0)
		text_printf(why, "fork: %m");
	else
		r = probe_wait(child, ends[0], asked, why);
	munmap(asked, PATH_MAX);
	close(ends[0]);
	return r;
}

/* ---- the mount ---- */

int mount_try(struct mount *mount, struct text *why)
{
	int r = mount_probe(why);

	if (r)
		return r;
	r = gpumem_open(&mount->session, NULL);
	if (r) {
		text_printf(why, "%s", gpumem_error());
		return r;
	}
	mount->path = gpumem_path(mount->session);
	mount->fd = open(mount->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (mount->fd >= 0)
		return 0;
	r = -errno;
	text_printf(why, "%s: %m", mount->path);
	mount_close(mount);
	return r;
}

int mount_open(struct mount *mount)
{
	_cleanup_text_ struct text why = TEXT_INIT;

	return mount_try(mount, &why) ? refused("%s", text_string(&why)) : STATUS_DONE;
}

void mount_close(struct mount *mount)
{
	closep(&mount->fd);
	gpumem_close(take_ptr(mount->session));
}

/* ---- files ---- */

int file_read(int folder, const char *file, struct text *text)
{
	_cleanup_close_ int fd = openat(folder, file, O_RDONLY | O_CLOEXEC);
	char bytes[4096];
	ssize_t n;

	if (fd < 0)
		return -errno;
	while ((n = read(fd, bytes, sizeof bytes)) > 0) {
		text_add(text, bytes, (size_t)n);
		if (text_failed(text))
			return -ENOMEM;
		if (text->length > FILE_READ_MAX)
			return -EFBIG;
	}
	if (n < 0)
		return -errno;
	return 0;
}

int mount_allocation(const struct mount *mount, const char *name)
{
	_cleanup_text_ struct text path = TEXT_INIT;
	int fd;

	text_printf(&path, "allocations/%s", name);
	fd = openat(mount->fd, text_string(&path),
		    O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int mount_read(const struct mount *mount, const char *file, struct text *text)
{
	return file_read(mount->fd, file, text);
}

void mount_why(const struct mount *mount, const char *file, int error, struct text *why)
{
	_cleanup_text_ struct text errors = TEXT_INIT;

	text_printf(&errors, "%s/errors", mount->path);
	if (!error_line_find(text_string(&errors), file, error, why))
		text_printf(why, "%s", strerror(error));
}

int mount_line(const struct mount *mount, const char *file, const char *line,
	       struct text *answer)
{
	static char bytes[ANSWER_SIZE];

	bytes[0] = '\0';
	int r = gpumem_command(mount->session, file, line, bytes, sizeof bytes);
	if (r == 0 && answer)
		text_printf(answer, "%s", bytes);
	return r;
}

/* SPDX-License-Identifier: MIT */
/*
 * A session: finds and opens a mount, and writes lines to its files.
 *
 * All sessions are in one list, so that a child after fork can mark them: the child
 * shares its parent's descriptors, and a lease kept by the child would outlive the
 * parent's.
 */
#include "client/private.h"

#include "base/broker_mount.h"
#include "base/error_line.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct sessions {
	pthread_mutex_t lock;
	struct gpumem **all; /* lock */
	size_t n;
};

static struct sessions sessions = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- fork ---- */

static void before_fork(void)
{
	pthread_mutex_lock(&sessions.lock);
	maps_lock();
}

static void after_fork_parent(void)
{
	maps_unlock();
	pthread_mutex_unlock(&sessions.lock);
}

/* Locks of other threads have no holder in the child: they are initialized again. */
static void after_fork_child(void)
{
	for (size_t i = 0; i < sessions.n; i++) {
		struct gpumem *gpumem = sessions.all[i];

		pthread_mutex_init(&gpumem->lock, NULL);
		gpumem->forked = true;
		closep(&gpumem->alloc_fd);
	}
	maps_forget();
	maps_unlock();
	pthread_mutex_unlock(&sessions.lock);
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

static bool session_list(struct gpumem *gpumem)
{
	struct gpumem **all;

	pthread_mutex_lock(&sessions.lock);
	all = reallocarray(sessions.all, sessions.n + 1, sizeof(*all));
	if (all) {
		all[sessions.n++] = gpumem;
		sessions.all = all;
	}
	pthread_mutex_unlock(&sessions.lock);
	return all;
}

static void session_unlist(const struct gpumem *gpumem)
{
	pthread_mutex_lock(&sessions.lock);
	for (size_t i = 0; i < sessions.n; i++) {
		if (sessions.all[i] != gpumem)
			continue;
		sessions.all[i] = sessions.all[--sessions.n];
		break;
	}
	if (sessions.n == 0)
		free(take_ptr(sessions.all));
	pthread_mutex_unlock(&sessions.lock);
}

/* ---- the mount ---- */

static int mount_dead(const char *mount)
{
	return error_set(
		ENOTCONN,
		"the gpumemd of %s has ended: `fusermount3 -u %s` takes the dead "
		"mount away",
		mount, mount);
}

/* Returns: 0: this user may enter the mount; -errno. */
static int mount_enter(const char *mount)
{
	struct statx now;

	/* for a dead broker the kernel answers from its cache, unless forced to ask */
	if (faccessat(AT_FDCWD, mount, X_OK, AT_EACCESS) == 0 &&
	    statx(AT_FDCWD, mount, AT_STATX_FORCE_SYNC, STATX_MODE, &now) == 0)
		return 0;
	if (errno == ENOTCONN)
		return mount_dead(mount);
	return error_set(errno, "no broker is mounted here for this user: %s",
			 strerror(errno));
}

/*
 * Finds the only mount of a broker of root's, or of this user's, that the user may enter.
 * Returns: 0; -ENOENT; -EACCES and others: there are mounts, but none to enter;
 * -ENOTUNIQ; -ENOMEM.
 */
static int mount_find(char **ret_mount)
{
	_cleanup_broker_mounts_ struct broker_mounts mounts = BROKER_MOUNTS(NULL);
	_cleanup_text_ struct text all = TEXT_INIT;
	const char *folder;
	int refused = error_set(ENOENT, "no broker of root's or of your own is "
					"mounted here: start gpumemd");
	unsigned int n = 0;

	if (broker_mounts_open(&mounts) < 0)
		return error_set(ENOENT, "/proc/self/mounts can't be read");
	while ((folder = broker_mounts_next(&mounts))) {
		int r = mount_enter(folder);

		if (r == 0)
			text_printf(&all, "%s%s", n++ ? ", " : "", folder);
		else
			refused = r;
	}
	if (n == 0)
		return refused;
	if (n > 1)
		return error_set(ENOTUNIQ,
				 "%u brokers are mounted here: set GPUMEM_MOUNT to one "
				 "of %s",
				 n, text_string(&all));
	if (text_failed(&all))
		return error_set(ENOMEM, "no memory");
	*ret_mount = take_ptr(all.data);
	return 0;
}

static int mount_check(const char *mount)
{
	_cleanup_free_ char *path = NULL;
	int error;

	if (asprintf(&path, "%s/socket", mount) < 0) {
		path = NULL;
		return error_set(ENOMEM, "no memory");
	}
	if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	error = errno;
	if (error == ENOTCONN)
		return mount_dead(mount);
	return error_set(error == ENOENT || error == ENOTDIR ? ENOENT : error,
			 "%s is not a mount of gpumemd: %s", mount, strerror(error));
}

EXPORT int gpumem_open(struct gpumem **ret, const char *mount)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	_cleanup_free_ char *path = NULL;
	struct gpumem *gpumem;
	int r;

	if (!mount || !*mount)
		mount = secure_getenv("GPUMEM_MOUNT");
	if (mount && *mount)
		path = strdup(mount);
	else if ((r = mount_find(&path)) < 0)
		return r;
	if (!path)
		return error_set(ENOMEM, "no memory");
	r = mount_check(path);
	if (r < 0)
		return r;
	pthread_once(&once, watch_forks);
	gpumem = calloc(1, sizeof(*gpumem));
	if (!gpumem || !session_list(gpumem)) {
		free(gpumem);
		return error_set(ENOMEM, "no memory");
	}
	gpumem->mount = take_ptr(path);
	gpumem->alloc_fd = -1;
	gpumem->n_refs = 1;
	pthread_mutex_init(&gpumem->lock, NULL);
	*ret = gpumem;
	return 0;
}

struct gpumem *session_ref(struct gpumem *gpumem)
{
	__atomic_add_fetch(&gpumem->n_refs, 1, __ATOMIC_RELAXED);
	return gpumem;
}

struct gpumem *session_unref(struct gpumem *gpumem)
{
	if (__atomic_sub_fetch(&gpumem->n_refs, 1, __ATOMIC_ACQ_REL))
		return NULL;
	session_unlist(gpumem);
	pthread_mutex_destroy(&gpumem->lock);
	free(gpumem->mount);
	free(gpumem);
	return NULL;
}

EXPORT void gpumem_close(struct gpumem *gpumem)
{
	if (!gpumem)
		return;
	pthread_mutex_lock(&gpumem->lock);
	closep(&gpumem->alloc_fd);
	pthread_mutex_unlock(&gpumem->lock);
	session_unref(gpumem);
}

EXPORT const char *gpumem_path(const struct gpumem *gpumem)
{
	return gpumem->mount;
}

char *session_path(const struct gpumem *gpumem, const char *format, ...)
{
	_cleanup_free_ char *file = NULL;
	char *path = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&file, format, args) < 0)
		file = NULL;
	va_end(args);
	if (!file || asprintf(&path, "%s/%s", gpumem->mount, file) < 0)
		return NULL;
	return path;
}

/* ---- sentences ---- */

int session_fail(const struct gpumem *gpumem, int error, const char *file)
{
	_cleanup_free_ char *errors = session_path(gpumem, "errors");
	_cleanup_text_ struct text sentence = TEXT_INIT;

	if (errors && error_line_find(errors, file, error, &sentence))
		return error_set(error, "%s", text_string(&sentence));
	return error_set(error, "%s/%s: %s", gpumem->mount, file, strerror(error));
}

/* ---- lines ---- */

static int command_answer(int fd, char *answer, size_t size)
{
	char bytes[4096];
	size_t length = 0;
	ssize_t got;

	while ((got = read(fd, bytes, sizeof(bytes))) > 0) {
		size_t room = size ? size - 1 - length : 0;
		size_t taken = MIN((size_t)got, room);

		if (taken)
			memcpy(answer + length, bytes, taken);
		length += taken;
	}
	if (size)
		answer[length] = '\0';
	return got < 0 ? -errno : 0;
}

static int command_on(struct gpumem *gpumem, int fd, const char *file, const char *line,
		      char *answer, size_t size)
{
	size_t length = strlen(line);
	ssize_t written = write(fd, line, length);
	int r;

	if (written < 0)
		return session_fail(gpumem, errno, file);
	r = command_answer(fd, answer, size);
	return r < 0 ? session_fail(gpumem, -r, file) : 0;
}

/*
 * The descriptor of control/alloc is kept open, or until=close would end with the call.
 * Answers belong to a descriptor, so the lock is held until the answer is read.
 */
static int command_alloc(struct gpumem *gpumem, const char *path, const char *file,
			 const char *line, char *answer, size_t size)
{
	bool kept;
	int r;

	pthread_mutex_lock(&gpumem->lock);
	do {
		kept = gpumem->alloc_fd >= 0;
		if (!kept)
			gpumem->alloc_fd = open(path, O_RDWR | O_CLOEXEC);
		r = gpumem->alloc_fd < 0 ? session_fail(gpumem, errno, file)
					 : command_on(gpumem, gpumem->alloc_fd, file,
						      line, answer, size);
		/* The broker has ended, and another broker may be mounted at the same
		 * place. */
		if (r == -ENOTCONN)
			closep(&gpumem->alloc_fd);
	} while (r == -ENOTCONN && kept);
	pthread_mutex_unlock(&gpumem->lock);
	return r;
}

EXPORT int gpumem_command(struct gpumem *gpumem, const char *file, const char *line,
			  char *answer, size_t size)
{
	_cleanup_free_ char *path = session_path(gpumem, "%s", file);
	_cleanup_close_ int fd = -1;

	if (gpumem->forked)
		return error_set(ECHILD, "this session is the parent's: open one here");
	if (!path)
		return error_set(ENOMEM, "no memory");
	if (strcmp(file, "control/alloc") == 0)
		return command_alloc(gpumem, path, file, line, answer, size);
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? session_fail(gpumem, errno, file)
		      : command_on(gpumem, fd, file, line, answer, size);
}

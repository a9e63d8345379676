/* SPDX-License-Identifier: MIT */
#include "snapshot.h"

#include "base/number.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- flat keyed files ---- */

/* Returns: the value of a key in `KEY VALUE` lines, to be freed; NULL: none. */
static char *value_of(const struct text *text, const char *key)
{
	const char *line = text_string(text);
	size_t length = strlen(key);

	while (strncmp(line, key, length) || line[length] != ' ') {
		line = strchr(line, '\n');
		if (!line++)
			return NULL;
	}
	line += length + 1;
	return strndup(line, strcspn(line, "\n"));
}

static uint64_t number_of(const struct text *text, const char *key)
{
	_cleanup_free_ char *value = value_of(text, key);
	uint64_t number;

	return value && !number_parse(value, &number) ? number : SIZE_UNKNOWN;
}

/* ---- folders ---- */

struct folder {
	DIR *dir;
};

static void folder_close(struct folder *folder)
{
	if (folder->dir)
		closedir(folder->dir);
}

static int folder_open_at(struct folder *folder, int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	folder->dir = fd < 0 ? NULL : fdopendir(fd);
	return folder->dir ? 0 : -errno;
}

static int folder_open(struct folder *folder, const struct mount *mount, const char *name)
{
	return folder_open_at(folder, mount->fd, name);
}

/*
 * The next folder in a folder. One call for each: others may have a hundred thousand.
 * Returns: the name, with its attributes; NULL at the end.
 */
static const char *folder_next(struct folder *folder, struct stat *ret_stat)
{
	const struct dirent *entry;

	while ((entry = readdir(folder->dir))) {
		if (entry->d_name[0] != '.' &&
		    !fstatat(dirfd(folder->dir), entry->d_name, ret_stat,
			     AT_SYMLINK_NOFOLLOW) &&
		    S_ISDIR(ret_stat->st_mode))
			return entry->d_name;
	}
	return NULL;
}

/*
 * Opens what folder_next() has named. The owner of the folder may have exchanged it
 * since: *ret_stat is of what was opened. Returns: a descriptor, O_PATH; -errno.
 */
static int folder_enter(const struct folder *folder, const char *name,
			struct stat *ret_stat)
{
	_cleanup_close_ int fd = openat(dirfd(folder->dir), name,
					O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 || fstat(fd, ret_stat) ? -errno : take_fd(&fd);
}

/* Extends a list of n by a zeroed element. Returns: the list; NULL: no memory. */
static void *list_grow(void *list, size_t n, size_t size)
{
	char *grown = n & (n - 1) ? list : reallocarray(list, n ? 2 * n : 1, size);

	if (grown)
		memset(grown + n * size, 0, size);
	return grown;
}

/* ---- GPUs and users ---- */

static uint64_t size_in(int folder, const char *file)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	uint64_t size;

	if (file_read(folder, file, &text) || !text.length)
		return SIZE_UNKNOWN;
	text.data[strcspn(text.data, "\n")] = '\0';
	return number_parse(text.data, &size) ? SIZE_UNKNOWN : size;
}

static int by_number(const void *a, const void *b)
{
	const struct gpu *first = a, *second = b;

	return first->number < second->number ? -1 : first->number > second->number;
}

static int read_gpus(struct snapshot *snapshot, const struct mount *mount)
{
	_cleanup_(folder_close) struct folder devices = { 0 };
	struct stat st;
	const char *name;
	int r = folder_open(&devices, mount, "devices");

	if (r)
		return r;
	while ((name = folder_next(&devices, &st))) {
		_cleanup_text_ struct text status = TEXT_INIT;
		_cleanup_close_ int fd = folder_enter(&devices, name, &st);
		struct gpu *gpus =
			list_grow(snapshot->gpus, snapshot->n_gpus, sizeof(*gpus));

		if (!gpus)
			return -ENOMEM;
		snapshot->gpus = gpus;
		(void)file_read(fd, "status", &status);
		gpus[snapshot->n_gpus++] = (struct gpu){
			.number = (unsigned int)strtoul(name, NULL, 10),
			.name = value_of(&status, "name"),
			.uuid = value_of(&status, "uuid"),
			.state = value_of(&status, "state"),
			.total = number_of(&status, "memory_total_bytes"),
			.held = number_of(&status, "memory_held_bytes"),
			.used = size_in(fd, "memory_used_bytes"),
		};
	}
	qsort(snapshot->gpus, snapshot->n_gpus, sizeof(struct gpu), by_number);
	return 0;
}

/* The name of a user; the number where the broker does not know the user any more. */
static char *read_name(const struct mount *mount, uid_t uid)
{
	_cleanup_text_ struct text name = TEXT_INIT;
	char path[32], *copy;

	snprintf(path, sizeof path, "owners/%u/name", uid);
	if (!mount_read(mount, path, &name) && name.length)
		return strndup(text_string(&name), strcspn(text_string(&name), "\n"));
	return asprintf(&copy, "%u", uid) < 0 ? NULL : copy;
}

/* Only the names of those who have allocations: there may be thousands of owners. */
static const char *user_name(struct snapshot *snapshot, const struct mount *mount,
			     uid_t uid)
{
	struct user *users = snapshot->users;
	char *name;

	/* From the last: allocations that follow each other are often of one user. */
	for (size_t i = snapshot->n_users; i-- > 0;)
		if (users[i].uid == uid)
			return users[i].name;
	users = list_grow(users, snapshot->n_users, sizeof(*users));
	if (!users)
		return NULL;
	snapshot->users = users;
	name = read_name(mount, uid);
	if (name)
		users[snapshot->n_users++] = (struct user){ .uid = uid, .name = name };
	return name;
}

/* ---- allocations ---- */

static int64_t time_parse(const char *word)
{
	struct tm tm = { 0 };
	const char *end = word ? strptime(word, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;

	return end ? timegm(&tm) : 0;
}

static void allocation_take(struct allocation *allocation, const struct text *status)
{
	_cleanup_free_ char *device = value_of(status, "device");
	uint64_t number;

	allocation->kind = value_of(status, "kind");
	allocation->state = value_of(status, "state");
	allocation->tag = value_of(status, "tag");
	allocation->last_write = value_of(status, "last_write");
	if (allocation->last_write)
		allocation->written = time_parse(allocation->last_write);
	if (device)
		allocation->device =
			number_parse(device, &number) ? DEVICE_NONE : (int)number;
}

/* An allocation has 1 byte at least, a folder none. */
static bool is_folder(const struct stat *st)
{
	return st->st_size == 0;
}

/*
 * Whether this user may read the status: of others' allocations there may be many, and a
 * question for each takes time. A group's right can't be told here.
 */
static bool may_read(const struct stat *st, uid_t user)
{
	return !user || st->st_uid == user || st->st_mode & 0044;
}

/* Adds an allocation or a folder. Returns: 0; -ENOMEM. */
static int add_allocation(struct snapshot *snapshot, const char *before, const char *name,
			  struct sums *in, const struct stat *st)
{
	struct allocation *all =
		list_grow(snapshot->allocations, snapshot->n_allocations, sizeof(*all));

	if (!all)
		return -ENOMEM;
	snapshot->allocations = all;
	all += snapshot->n_allocations;
	if (asprintf(&all->name, "%s%s%s", before, name, is_folder(st) ? "/" : "") < 0)
		return -ENOMEM;
	snapshot->n_allocations++;
	all->uid = st->st_uid;
	all->size = (uint64_t)st->st_size;
	all->written = st->st_mtime;
	all->device = DEVICE_UNKNOWN;
	all->in = in;
	all->mode = st->st_mode & 07777;
	if (!is_folder(st))
		return 0;
	all->kind = strdup("folder");
	all->folder = calloc(1, sizeof(*all->folder));
	if (!all->kind || !all->folder)
		return -ENOMEM;
	all->folder->above = in;
	return 0;
}

/* Reads allocations. */
struct reading {
	struct snapshot *snapshot;
	const struct mount *mount;
	uid_t caller;
	uint64_t n_left; /* of the chosen user's, not found yet; SIZE_UNKNOWN */
};

static bool is_user(const char *word, uid_t uid, const char *name)
{
	char number[16];

	snprintf(number, sizeof number, "%u", uid);
	return strcmp(word, name) == 0 || strcmp(word, number) == 0;
}

/* Whether the user is the chosen one. Returns: 0; 1; -ENOMEM. */
static int is_chosen(const struct reading *reading, uid_t uid)
{
	struct snapshot *snapshot = reading->snapshot;
	const char *name;

	if (!snapshot->user)
		return 1;
	name = user_name(snapshot, reading->mount, uid);
	return name ? is_user(snapshot->user, uid, name) : -ENOMEM;
}

static int read_folder(struct reading *reading, int at, const char *path,
		       const char *before, struct sums *in);

/*
 * Reads an allocation, or a folder with all that is in it. With a chosen user nothing is
 * read of others' allocations, and others' folders are for read_rest(). Returns: 0;
 * -ENOMEM.
 */
static int read_entry(struct reading *reading, const struct folder *folder,
		      const char *name, struct stat *st, const char *before,
		      struct sums *in)
{
	struct snapshot *snapshot = reading->snapshot;
	_cleanup_text_ struct text status = TEXT_INIT;
	_cleanup_close_ int fd = -1;
	int r, chosen = is_chosen(reading, st->st_uid);
	struct allocation *all;

	if (chosen < 0 || (!chosen && !is_folder(st)))
		return chosen;
	if (!is_folder(st) && may_read(st, reading->caller)) {
		fd = folder_enter(folder, name, st);
		if (fd < 0)
			return 0;
	}
	r = add_allocation(snapshot, before, name, in, st);
	if (r)
		return r;
	all = &snapshot->allocations[snapshot->n_allocations - 1];
	all->unread = !chosen;
	/* The list of allocations grows, names and sums stay where they are. */
	if (all->folder)
		return chosen ? read_folder(reading, dirfd(folder->dir), name, all->name,
					    all->folder)
			      : 0;
	reading->n_left -= reading->n_left > 0;
	if (fd >= 0 && !file_read(fd, "status", &status))
		allocation_take(all, &status);
	return 0;
}

/* before: the name of the folder with a `/`, or nothing. */
static int read_folder(struct reading *reading, int at, const char *path,
		       const char *before, struct sums *in)
{
	_cleanup_(folder_close) struct folder folder = { 0 };
	struct stat st;
	const char *name;
	int r = folder_open_at(&folder, at, path);

	/* A folder that this user may not read, or that is gone, is listed alone. */
	if (r)
		return in ? 0 : r;
	while (r == 0 && (name = folder_next(&folder, &st)))
		r = read_entry(reading, &folder, name, &st, before, in);
	return r;
}

/* Reads others' folders, until all of the chosen user's allocations are found. */
static int read_rest(struct reading *reading)
{
	struct snapshot *snapshot = reading->snapshot;
	int r = 0;

	for (size_t i = 0; r == 0 && i < snapshot->n_allocations; i++) {
		const struct allocation *all = &snapshot->allocations[i];

		if (!all->unread)
			continue;
		if (!reading->n_left && !snapshot->all_folders)
			break;
		_cleanup_close_ int fd = mount_allocation(reading->mount, all->name);

		if (fd >= 0)
			r = read_folder(reading, fd, ".", all->name, all->folder);
	}
	return r;
}

/*
 * The allocations of a user, with those being made. `owners` has all who have any.
 * Returns: SIZE_UNKNOWN: the broker has another name for the user.
 */
static uint64_t count_of(const struct mount *mount, const char *user)
{
	_cleanup_text_ struct text current = TEXT_INIT;
	_cleanup_free_ char *name = NULL;
	const struct passwd *entry = getpwnam(user);
	uint64_t uid = entry ? entry->pw_uid : 0;
	char path[40];
	int r;

	if (!entry && number_parse(user, &uid))
		return SIZE_UNKNOWN;
	snprintf(path, sizeof path, "owners/%u/current", (uid_t)uid);
	r = mount_read(mount, path, &current);
	if (r)
		return r == -ENOENT ? 0 : SIZE_UNKNOWN;
	name = read_name(mount, (uid_t)uid);
	return name && is_user(user, (uid_t)uid, name)
		       ? number_of(&current, "allocations")
		       : SIZE_UNKNOWN;
}

static int read_allocations(struct snapshot *snapshot, const struct mount *mount)
{
	struct reading reading = {
		.snapshot = snapshot,
		.mount = mount,
		.caller = geteuid(),
		.n_left = snapshot->user ? count_of(mount, snapshot->user) : SIZE_UNKNOWN,
	};

	return read_folder(&reading, mount->fd, "allocations", "", NULL)
		       ?: read_rest(&reading);
}

/* The users of allocations, those with the largest first. */
static int read_users(struct snapshot *snapshot, const struct mount *mount)
{
	snapshot_sort(snapshot, "size");
	/* The list of users grows, and names stay where they are. */
	for (size_t i = 0; i < snapshot->n_allocations; i++) {
		struct allocation *allocation = &snapshot->allocations[i];

		allocation->owner = user_name(snapshot, mount, allocation->uid);
		if (!allocation->owner)
			return -ENOMEM;
	}
	return 0;
}

/* ---- leases ---- */

static int by_exact_name(const void *a, const void *b)
{
	const struct allocation *first = a, *second = b;

	return strcmp(first->name, second->name);
}

/* With allocations sorted by by_exact_name(). NULL: there is none. */
static struct allocation *find(const struct snapshot *snapshot, char *name)
{
	const struct allocation key = { .name = name };

	return snapshot->n_allocations
		       ? bsearch(&key, snapshot->allocations, snapshot->n_allocations,
				 sizeof(key), by_exact_name)
		       : NULL;
}

/* OBJECT PID UID r|w SINCE hold=none|r|w COMM. COMM may be empty, and may have blanks. */
static int take_lease(struct snapshot *snapshot, char *line)
{
	char *object = strsep(&line, " "), *pid = strsep(&line, " ");
	_cleanup_free_ char *before = NULL;
	struct allocation *allocation;

	for (int i = 0; i < 4; i++)
		strsep(&line, " ");
	allocation = line ? find(snapshot, object) : NULL;
	if (!allocation)
		return 0;
	/* A program with brackets in its name would look like several holders. */
	for (char *at = line; (at = strpbrk(at, "()"));)
		*at = '_';
	before = take_ptr(allocation->holders);
	if (asprintf(&allocation->holders, "%s%s%s(%s)", before ?: "", before ? " " : "",
		     *line ? line : "?", pid) >= 0)
		return 0;
	allocation->holders = NULL;
	return -ENOMEM;
}

static int read_leases(struct snapshot *snapshot, const struct mount *mount)
{
	_cleanup_text_ struct text leases = TEXT_INIT;
	int r = mount_read(mount, "leases", &leases);
	char *rest = leases.data, *line;

	if (snapshot->n_allocations)
		qsort(snapshot->allocations, snapshot->n_allocations,
		      sizeof(struct allocation), by_exact_name);
	while (!r && (line = strsep(&rest, "\n")))
		r = take_lease(snapshot, line);
	return r;
}

static int read_mover(struct snapshot *snapshot, const struct mount *mount)
{
	_cleanup_text_ struct text status = TEXT_INIT;
	int r = mount_read(mount, "status", &status);
	uint64_t mover = number_of(&status, "mover");

	if (mover <= INT32_MAX)
		snapshot->mover = (pid_t)mover;
	return r;
}

/* ---- the whole ---- */

int snapshot_read(struct snapshot *snapshot, const struct mount *mount, struct text *why)
{
	static int (*const readers[])(struct snapshot *, const struct mount *) = {
		read_gpus, read_allocations, read_leases, read_users, read_mover,
	};

	for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
		int r = readers[i](snapshot, mount);

		if (r) {
			text_printf(why, "%s: %s", mount->path, strerror(-r));
			return r;
		}
	}
	return 0;
}

static void allocation_deinit(struct allocation *allocation)
{
	free(allocation->name);
	free(allocation->kind);
	free(allocation->state);
	free(allocation->tag);
	free(allocation->last_write);
	free(allocation->holders);
	free(allocation->folder);
}

void snapshot_deinit(struct snapshot *snapshot)
{
	for (size_t i = 0; i < snapshot->n_gpus; i++) {
		free(snapshot->gpus[i].name);
		free(snapshot->gpus[i].uuid);
		free(snapshot->gpus[i].state);
	}
	for (size_t i = 0; i < snapshot->n_users; i++)
		free(snapshot->users[i].name);
	for (size_t i = 0; i < snapshot->n_allocations; i++)
		allocation_deinit(&snapshot->allocations[i]);
	free(snapshot->gpus);
	free(snapshot->users);
	free(snapshot->allocations);
	*snapshot = (struct snapshot){ 0 };
}

/* ---- the filter ---- */

/* Adds an allocation to all folders above it. */
static void count_in_folders(const struct allocation *allocation)
{
	for (struct sums *sums = allocation->in; sums; sums = sums->above) {
		sums->n++;
		sums->size += allocation->size;
		sums->written = MAX(sums->written, allocation->written);
	}
}

static bool is_kept(const struct allocation *allocation, const char *user, int gpu)
{
	if (user && !is_user(user, allocation->uid, allocation->owner))
		return false;
	return allocation->folder || gpu < 0 || gpu == allocation->device;
}

void snapshot_filter(struct snapshot *snapshot, int gpu)
{
	struct allocation *all = snapshot->allocations;
	const char *user = snapshot->user;
	size_t kept = 0;

	for (size_t i = 0; i < snapshot->n_allocations; i++)
		if (!all[i].folder && is_kept(&all[i], user, gpu))
			count_in_folders(&all[i]);
	for (size_t i = 0; i < snapshot->n_allocations; i++) {
		struct allocation *allocation = &all[i];

		if (allocation->folder) {
			allocation->size = allocation->folder->size;
			allocation->written =
				allocation->folder->written ?: allocation->written;
		}
		if (is_kept(allocation, user, gpu) ||
		    (allocation->folder && allocation->folder->n))
			all[kept++] = *allocation;
		else
			allocation_deinit(allocation);
	}
	snapshot->n_allocations = kept;
}

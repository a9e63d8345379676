/* SPDX-License-Identifier: MIT */
/*
 * Every allocation of a mount has files with the address and the size. The files are read
 * again when an address is unknown, but for no more than a part of the time. Addresses
 * dealt by the broker are the same in all workers; other addresses are valid in the
 * owner's worker. So an allocation counts for the owner's worker, and for the mover.
 *
 * Several brokers deal the same addresses, so a name also has to be of the worker's own
 * broker. The broker is the worker's parent; a mount belongs to the broker whose workers
 * the mount names.
 *
 * A mount is somebody's program, which may be stuck and may lie. Child processes read
 * mounts (mount_reader.c), and an event waits a limited time for them. Only mounts of
 * root, of this process's user and of the user behind sudo are read, and a mount can only
 * name memory of a broker of the mount's user.
 */
#include "mount.h"

#include "base/clock.h"
#include "command.h"
#include "mount_reader.h"
#include "proc.h"

#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <uthash.h>

#define MOVER	      "gpumem-mover"
#define WAIT_NS	      500000000 /* for a reader, before names are done without */
#define LOOK_EVERY_NS 100000000 /* for mounts */
#define READ_SHARE    4 /* a mount may be read for this part of the time: 1 in 4 */

struct mount {
	dev_t device; /* unique to the mount */
	uid_t user;   /* the user who has mounted */
	char *path;
	bool gone;
	struct mount_reader reader;
	uint64_t started; /* the reader */
	uint64_t next;	  /* earliest time of the next reading */
	struct text names;
	uint64_t read_at; /* when the reading of these names began */
	struct mount *next_mount;
};

struct worker {
	uint64_t process;
	pid_t broker;
	UT_hash_handle hh;
};

struct mounts {
	struct mount *list;
	uint64_t looked; /* for mounts */
	struct worker *workers;
};

struct mounts *mounts_new(void)
{
	return calloc(1, sizeof(struct mounts));
}

static void mount_free(struct mount *mount)
{
	mount_reader_deinit(&mount->reader);
	text_deinit(&mount->names);
	free(mount->path);
	free(mount);
}

struct mounts *mounts_free(struct mounts *mounts)
{
	struct worker *worker, *next;

	if (!mounts)
		return NULL;
	HASH_ITER (hh, mounts->workers, worker, next) {
		HASH_DEL(mounts->workers, worker);
		free(worker);
	}
	while (mounts->list) {
		struct mount *mount = mounts->list;

		mounts->list = mount->next_mount;
		mount_free(mount);
	}
	free(mounts);
	return NULL;
}

/* ---- workers ---- */

/* Returns: 0 for a process that has ended and was never met. */
static pid_t broker_of_user(struct mounts *mounts, const struct mount_user *user)
{
	struct worker *worker;

	HASH_FIND(hh, mounts->workers, &user->process, sizeof user->process, worker);
	if (worker)
		return worker->broker;
	pid_t broker = proc_worker_broker((pid_t)user->pid);
	if (!broker)
		return 0;
	worker = calloc(1, sizeof *worker);
	if (!worker)
		return broker;
	worker->process = user->process;
	worker->broker = broker;
	HASH_ADD(hh, mounts->workers, process, sizeof worker->process, worker);
	return broker;
}

void mounts_meet(struct mounts *mounts, const struct mount_user *user)
{
	if (proc_is_worker(user->comm))
		broker_of_user(mounts, user);
}

void mounts_forget(struct mounts *mounts, uint64_t process)
{
	struct worker *worker;

	HASH_FIND(hh, mounts->workers, &process, sizeof process, worker);
	if (!worker)
		return;
	HASH_DEL(mounts->workers, worker);
	free(worker);
}

/* ---- the list of mounts ---- */

static bool is_trusted(uid_t user)
{
	uid_t sudo;

	return user == 0 || user == geteuid() || (command_user(&sudo) && user == sudo);
}

/* Undoes the kernel's escapes in place: the kernel writes some characters of a path as
 * \040 and the like. */
static void path_unescape(char *path)
{
	unsigned int character;
	char *to = path;

	for (const char *from = path; *from;) {
		if (*from == '\\' && sscanf(from, "\\%3o", &character) == 1) {
			*to++ = (char)character;
			from += 4;
		} else {
			*to++ = *from++;
		}
	}
	*to = '\0';
}

/* A line of /proc/self/mountinfo. Returns: false for all but a broker's root folder. */
static bool mount_parse(const char *line, struct mount *ret_mount, char ret_path[4200])
{
	const char *type = strstr(line, " - fuse.gpumemd "),
		   *options = strrchr(line, ' ');
	/* the options are the kernel's words; earlier words may be the user's */
	const char *user = type ? strstr(options, ",user_id=") : NULL;
	unsigned int major, minor, uid;
	int root = 0;

	if (!user || sscanf(user, ",user_id=%u", &uid) != 1 ||
	    sscanf(line, "%*u %*u %u:%u %n", &major, &minor, &root) != 2 ||
	    strncmp(line + root, "/ ", 2) != 0 ||
	    sscanf(line + root + 2, "%4199s", ret_path) != 1)
		return false;
	ret_mount->device = makedev(major, minor);
	ret_mount->user = uid;
	path_unescape(ret_path);
	return is_trusted(uid);
}

static struct mount *mount_find(const struct mounts *mounts, const struct mount *like)
{
	for (struct mount *mount = mounts->list; mount; mount = mount->next_mount)
		if (mount->device == like->device)
			return mount;
	return NULL;
}

static void mount_add(struct mounts *mounts, const struct mount *like, const char *path)
{
	struct mount *mount = calloc(1, sizeof *mount);

	if (!mount)
		return;
	*mount = *like;
	mount->path = strdup(path);
	mount->next_mount = mounts->list;
	mounts->list = mount;
}

static void remove_gone(struct mounts *mounts)
{
	for (struct mount **place = &mounts->list; *place;) {
		struct mount *mount = *place;

		if (mount->gone) {
			*place = mount->next_mount;
			mount_free(mount);
		} else {
			place = &mount->next_mount;
		}
	}
}

static void look_for_mounts(struct mounts *mounts)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	_cleanup_free_ char *line = NULL;
	size_t size = 0;

	if (now - mounts->looked < LOOK_EVERY_NS)
		return;
	mounts->looked = now;
	FILE *table = fopen("/proc/self/mountinfo", "re");
	if (!table)
		return;
	for (struct mount *mount = mounts->list; mount; mount = mount->next_mount)
		mount->gone = true;
	while (getline(&line, &size, table) > 0) {
		struct mount found = { 0 }, *known;
		char path[4200];

		if (!mount_parse(line, &found, path))
			continue;
		known = mount_find(mounts, &found);
		if (known)
			known->gone = false;
		else
			mount_add(mounts, &found, path);
	}
	fclose(table);
	remove_gone(mounts);
}

/* ---- reading ---- */

static void take_names(struct mount *mount, uint64_t deadline)
{
	if (!mount->reader.pid || !mount_reader_take(&mount->reader, deadline))
		return;
	struct text names = mount->reader.text;
	mount->reader.text = mount->names;
	mount->names = names;
	mount->read_at = mount->started;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	mount->next = now + READ_SHARE * (now - mount->started);
}

/* Reads the mounts that may be read again. An answer after the time limit counts
 * later. */
static void read_mounts(struct mounts *mounts)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	look_for_mounts(mounts);
	for (struct mount *mount = mounts->list; mount; mount = mount->next_mount)
		if (!mount->reader.pid && now >= mount->next && mount->path &&
		    !mount_reader_start(&mount->reader, mount->path, mount->device,
					mount->user))
			mount->started = now;
	for (struct mount *mount = mounts->list; mount; mount = mount->next_mount)
		take_names(mount, mount->started == now ? now + WAIT_NS : 0);
}

static const char *find(const struct mounts *mounts, const struct mount_user *user,
			pid_t broker, uint64_t address, uint64_t since)
{
	bool mover = !strcmp(user->comm, MOVER);

	for (struct mount *mount = mounts->list; mount; mount = mount->next_mount) {
		const struct named *list = (const void *)mount->names.data;
		size_t n = mount->names.length / sizeof *list;

		for (size_t i = 0; i < n && mount->read_at > since; i++)
			if (address - list[i].address < list[i].size &&
			    list[i].broker == broker &&
			    (mover || user->uid == list[i].owner))
				return list[i].name;
	}
	return NULL;
}

const char *mount_name(struct mounts *mounts, const struct mount_user *user,
		       uint64_t address, uint64_t since)
{
	if (!mounts || !proc_is_worker(user->comm))
		return NULL;
	pid_t broker = broker_of_user(mounts, user);
	if (!broker || !address)
		return NULL;
	for (struct mount *mount = mounts->list; mount; mount = mount->next_mount)
		take_names(mount, 0);
	const char *name = find(mounts, user, broker, address, since);
	if (name)
		return name;
	read_mounts(mounts);
	return find(mounts, user, broker, address, since);
}

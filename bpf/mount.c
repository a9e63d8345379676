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
 * Other programs map memory through leases, and a mount's file `leases` has each lease's
 * process. A mapping is of a lease of its process: at the allocation's own address, or
 * elsewhere with the allocation's size. Leases of an ordinary user's mount count for this
 * user's programs only.
 *
 * A mount is somebody's program, which may be stuck and may lie. Child processes read
 * mounts (mount_reader.c), and an event waits a limited time for them. Only mounts of
 * root, of this process's user and of the user behind sudo are read, and a mount can only
 * name memory of a broker of the mount's user.
 *
 * There may be tens of thousands of names, by any user's doing. So they are sorted when
 * they come, and an event finds those of its process without a walk along all.
 */
#include "mount.h"

#include "base/clock.h"
#include "base/hash.h"
#include "command.h"
#include "import.h"
#include "mount_reader.h"
#include "proc.h"

#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <utlist.h>

#define MOVER	      "gpumem-mover"
#define WAIT_NS	      500000000 /* for a reader, before names are done without */
#define LOOK_EVERY_NS 100000000 /* for mounts */
#define READ_SHARE    4 /* a mount may be read for this part of the time: 1 in 4 ... */
#define CREDIT_NS     UINT64_C(2000000000) /* ... and ahead of time by so much */
#define GRANULARITY   (UINT64_C(2) << 20)  /* of mappings of device memory */
#define LEASES_MAX    128 /* of a process, that are compared with its mappings */

struct list {
	struct mount_reader reader;
	uint64_t started; /* the reader */
	uint64_t next;	  /* earliest time of the next reading */
	struct text names;
	uint64_t read_at; /* when the reading of these names began */
};

struct mount {
	dev_t device; /* unique to the mount */
	uid_t user;   /* the user who has mounted */
	char *path;
	bool gone;
	struct list lists[N_MOUNT_LISTS];
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
	for (size_t i = 0; i < N_MOUNT_LISTS; i++) {
		mount_reader_deinit(&mount->lists[i].reader);
		text_deinit(&mount->lists[i].names);
	}
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

		LL_DELETE2(mounts->list, mount, next_mount);
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
	    strncmp(line + root, "/ ", 2) != 0 || !is_trusted(uid) ||
	    sscanf(line + root + 2, "%4199s", ret_path) != 1)
		return false;
	ret_mount->device = makedev(major, minor);
	ret_mount->user = uid;
	string_unescape(ret_path);
	return true;
}

static struct mount *mount_find(const struct mounts *mounts, const struct mount *like)
{
	struct mount *mount;

	LL_SEARCH_SCALAR2(mounts->list, mount, device, like->device, next_mount);
	return mount;
}

static void mount_add(struct mounts *mounts, const struct mount *like, const char *path)
{
	struct mount *mount = calloc(1, sizeof *mount);

	if (!mount)
		return;
	*mount = *like;
	mount->path = strdup(path);
	LL_PREPEND2(mounts->list, mount, next_mount);
}

static void remove_gone(struct mounts *mounts)
{
	struct mount *mount, *safe;

	LL_FOREACH_SAFE2(mounts->list, mount, safe, next_mount)
	{
		if (!mount->gone)
			continue;
		LL_DELETE2(mounts->list, mount, next_mount);
		mount_free(mount);
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

/* By process, broker and owner, and then by address. */
static int named_compare(const void *a, const void *b)
{
	const struct named *x = a, *y = b;

	if (x->holder != y->holder)
		return x->holder < y->holder ? -1 : 1;
	if (x->broker != y->broker)
		return x->broker < y->broker ? -1 : 1;
	if (x->owner != y->owner)
		return x->owner < y->owner ? -1 : 1;
	return (x->address > y->address) - (x->address < y->address);
}

static void names_sort(struct text *names)
{
	if (names->length)
		qsort(names->data, names->length / sizeof(struct named),
		      sizeof(struct named), named_compare);
}

/* How many of the rows are not behind a key. */
static size_t rows_up_to(const struct named *rows, size_t n, const struct named *key)
{
	size_t first = 0;

	while (n > 0) {
		size_t half = n / 2;

		if (named_compare(&rows[first + half], key) <= 0) {
			first += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return first;
}

static void list_take(struct list *list, uint64_t deadline)
{
	if (!list->reader.pid || !mount_reader_take(&list->reader, deadline))
		return;
	struct text names = list->reader.text;
	list->reader.text = list->names;
	list->names = names;
	names_sort(&list->names);
	list->read_at = list->started;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	list->next = MAX(list->next, now) + READ_SHARE * (now - list->started);
}

static void lists_take(struct mounts *mounts, enum mount_list which)
{
	for (struct mount *mount = mounts->list; mount; mount = mount->next_mount)
		list_take(&mount->lists[which], 0);
}

/* Several allocations may be mapped one after the other. Their names may be read each
 * time, for a while. */
static bool list_is_due(const struct list *list, uint64_t now)
{
	return now + CREDIT_NS >= list->next;
}

/* Reads a list of the mounts that may be read again. An answer after the time limit
 * counts later. */
static void lists_read(struct mounts *mounts, enum mount_list which)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	for (struct mount *mount = mounts->list; mount; mount = mount->next_mount) {
		struct list *list = &mount->lists[which];

		if (!list->reader.pid && list_is_due(list, now) && mount->path &&
		    !mount_reader_start(&list->reader, mount->path, mount->device,
					mount->user, which))
			list->started = now;
	}
	for (struct mount *mount = mounts->list; mount; mount = mount->next_mount) {
		struct list *list = &mount->lists[which];

		list_take(list, list->started == now ? now + WAIT_NS : 0);
	}
}

/* The names of a list, in *ret_n rows. */
static const struct named *list_rows(const struct list *list, uint64_t since,
				     size_t *ret_n)
{
	*ret_n = list->read_at > since ? list->names.length / sizeof(struct named) : 0;
	return (const void *)list->names.data;
}

/* ---- names for workers ---- */

/* Allocations of an owner do not overlap. */
static const char *find_of_owner(const struct named *rows, size_t n, pid_t broker,
				 uid_t owner, uint64_t address)
{
	const struct named key = { .broker = broker, .owner = owner, .address = address };
	const size_t i = rows_up_to(rows, n, &key);
	const struct named *row = i ? &rows[i - 1] : NULL;

	return row && row->broker == broker && row->owner == owner &&
			       address - row->address < row->size
		       ? row->name
		       : NULL;
}

static const char *find_of_any(const struct named *rows, size_t n, pid_t broker,
			       uint64_t address)
{
	struct named key = { .broker = broker };
	const char *name = NULL;
	size_t i = rows_up_to(rows, n, &key);

	while (!name && i < n && rows[i].broker == broker) {
		name = find_of_owner(rows, n, broker, rows[i].owner, address);
		key.owner = rows[i].owner;
		key.address = UINT64_MAX;
		i = rows_up_to(rows, n, &key);
	}
	return name;
}

static const char *find(const struct mounts *mounts, const struct mount_user *user,
			pid_t broker, uint64_t address, uint64_t since)
{
	const char *name = NULL;

	for (struct mount *mount = mounts->list; mount && !name;
	     mount = mount->next_mount) {
		size_t n;
		const struct named *rows =
			list_rows(&mount->lists[MOUNT_ALLOCATIONS], since, &n);

		name = strcmp(user->comm, MOVER)
			       ? find_of_owner(rows, n, broker, user->uid, address)
			       : find_of_any(rows, n, broker, address);
	}
	return name;
}

const char *mount_name(struct mounts *mounts, const struct mount_user *user,
		       uint64_t address, uint64_t since)
{
	if (!mounts || !proc_is_worker(user->comm))
		return NULL;
	pid_t broker = broker_of_user(mounts, user);
	if (!broker || !address)
		return NULL;
	lists_take(mounts, MOUNT_ALLOCATIONS);
	const char *name = find(mounts, user, broker, address, since);
	if (name)
		return name;
	look_for_mounts(mounts);
	lists_read(mounts, MOUNT_ALLOCATIONS);
	return find(mounts, user, broker, address, since);
}

/* ---- names of leased memory ---- */

struct leases {
	const struct named *rows;
	size_t n;
};

/* The leases of a process on a mount, as far as the mount may speak of the process. */
static struct leases leases_of(const struct mount *mount, const struct mount_user *user,
			       uint64_t since)
{
	struct leases leases = { 0 };

	if (mount->user == 0 || mount->user == user->uid)
		leases.rows = list_rows(&mount->lists[MOUNT_LEASES], since, &leases.n);
	if (leases.n) {
		const struct named key = { .holder = (pid_t)user->pid };
		const struct named next = { .holder = (pid_t)user->pid + 1 };
		const size_t first = rows_up_to(leases.rows, leases.n, &key);

		leases.n = rows_up_to(leases.rows, leases.n, &next) - first;
		leases.rows += first;
	}
	return leases;
}

static const char *find_at_address(const struct leases *leases,
				   const struct mount_mapping *mapping)
{
	for (size_t i = 0; i < leases->n; i++)
		if (mapping->address - leases->rows[i].address < leases->rows[i].size)
			return leases->rows[i].name;
	return NULL;
}

/* The leases of the allocation of the first of these, which stand in a row. */
static size_t n_of_first(const struct leases *leases)
{
	size_t n = 1;

	while (n < leases->n && !strcmp(leases->rows[n].name, leases->rows->name))
		n++;
	return n;
}

/* Of the allocations of which the process has more leases than mappings. Returns: NULL
 * where several fit, or where there are too many to look at. */
static const char *find_of_size(struct leases leases, const struct mount_user *user,
				const struct mount_mapping *mapping,
				const struct imports *imports)
{
	const char *name = NULL;

	if (leases.n > LEASES_MAX)
		return NULL;
	while (leases.n > 0) {
		const struct named *row = leases.rows;
		const size_t n = n_of_first(&leases);

		leases = (struct leases){ leases.rows + n, leases.n - n };
		if (row->size > mapping->size ||
		    mapping->size - row->size >= GRANULARITY ||
		    n <= imports_count(imports, user->process, row->name))
			continue;
		if (name)
			return NULL;
		name = row->name;
	}
	return name;
}

static const char *find_lease(const struct mounts *mounts, const struct mount_user *user,
			      const struct mount_mapping *mapping,
			      const struct imports *imports)
{
	const char *name = NULL;

	for (struct mount *mount = mounts->list; mount && !name;
	     mount = mount->next_mount) {
		const struct leases leases = leases_of(mount, user, mapping->time);

		name = find_at_address(&leases, mapping);
	}
	for (struct mount *mount = mounts->list; mapping->imported && mount && !name;
	     mount = mount->next_mount) {
		const struct leases leases = leases_of(mount, user, mapping->time);

		name = find_of_size(leases, user, mapping, imports);
	}
	return name;
}

const char *mount_lease_name(struct mounts *mounts, const struct mount_user *user,
			     const struct mount_mapping *mapping,
			     const struct imports *imports)
{
	lists_take(mounts, MOUNT_LEASES);
	const char *name = find_lease(mounts, user, mapping, imports);
	if (name)
		return name;
	look_for_mounts(mounts);
	lists_read(mounts, MOUNT_LEASES);
	return find_lease(mounts, user, mapping, imports);
}

/* SPDX-License-Identifier: MIT */
#include "api/limits_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/limits.h"
#include "base/completion.h"
#include "base/refusal.h"
#include "base/text.h"
#include "base/workqueue.h"
#include "model/access.h"
#include "model/journal.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/save.h"
#include "process/broker.h"
#include "process/outside.h"
#include "process/processes.h"
#include "record/records.h"

struct limits_file {
	char *path;
	char *folder;
	/* One thread: the last file written has the last limits. */
	struct workqueue queue;
};

struct save {
	struct task task;
	struct broker *broker;
	struct completion *wait;
	size_t length; /* of the write that waits */
	uid_t uid;
	pid_t pid;
	char path[64]; /* of the limits in the mount */
};

static const char intro[] =
	"# Limits of gpumem's users, a line each: UID KEY VALUE, or `default` for UID.\n"
	"# Behind it `own`: the user's value, where root gave none.\n"
	"# Limits are changed in owners/UID/max of the mount: gpumemd writes the file\n"
	"# anew with each change, and reads it when a mount begins, not at a reload.\n";

/* ---- reading ---- */

/* Returns: 0; -EINVAL, -EOVERFLOW, -ENOMEM and a refusal. */
static int take_line(struct registry *registry, char *line, struct refusal *refusal)
{
	static const char blanks[] = " \t\n";
	struct limits *limits = &registry->limits;
	char *words[5] = { NULL }, *rest;
	struct owner *owner = NULL;
	struct limit limit;
	bool own;
	size_t n = 0;
	uid_t uid;
	int r;

	line[strcspn(line, "#")] = '\0';
	for (char *word = strtok_r(line, blanks, &rest); word && n < ARRAY_SIZE(words);
	     word = strtok_r(NULL, blanks, &rest))
		words[n++] = word;
	if (n == 0)
		return 0;
	own = n == 4 && strcmp(words[3], "own") == 0;
	if (n != 3 && !own)
		return refuse(refusal, EINVAL,
			      "a line is UID KEY VALUE, such as: 1000 device:0 20GiB");
	if (strcmp(words[0], "default") != 0) {
		if (uid_parse(words[0], &uid) < 0)
			return refuse(refusal, EINVAL,
				      "'%.64s' is neither a user's number nor default",
				      words[0]);
		owner = owner_make(registry, uid);
		if (!owner)
			return refuse(refusal, ENOMEM, "no memory");
		limits = &owner->shares.limits;
	}
	r = limit_parse(words[1], words[2], DEVICES_MAX, &limit, refusal);
	if (r < 0)
		return r;
	limit_set(limits, &limit, own && owner);
	if (owner)
		owner_save(registry, owner);
	else
		registry_save(registry);
	return 0;
}

static int read_lines(struct registry *registry, const char *path, FILE *file,
		      struct text *why)
{
	_cleanup_free_ char *line = NULL;
	struct refusal refusal;
	size_t size = 0;
	int r = 0;

	pthread_mutex_lock(&registry->lock);
	for (unsigned int number = 1; r == 0 && getline(&line, &size, file) >= 0;
	     number++) {
		r = take_line(registry, line, &refusal);
		if (r < 0)
			text_printf(why, "%s line %u: %s", path, number,
				    refusal.sentence);
	}
	pthread_mutex_unlock(&registry->lock);
	if (r == 0 && ferror(file)) {
		r = -EIO;
		text_printf(why, "%s: it can't be read", path);
	}
	return r;
}

/* A user who could write the file could set any limit. */
static int check_file(const char *path, FILE *file, struct text *why)
{
	struct stat stat;

	if (fstat(fileno(file), &stat) < 0)
		return -errno;
	if (S_ISREG(stat.st_mode) && stat.st_uid == 0 && !(stat.st_mode & 022))
		return 0;
	text_printf(why, "%s: it must be a file that only root can write", path);
	return -EPERM;
}

static int check_folder(const char *path, const char *folder, struct text *why)
{
	int r = access(folder, W_OK) < 0 ? -errno : 0;

	if (r < 0)
		text_printf(why, "%s: limits can't be kept in %s: %s", path, folder,
			    strerror(-r));
	return r;
}

static int read_file(struct broker *broker, struct text *why)
{
	const char *path = broker->limits_file->path;
	int r = check_folder(path, broker->limits_file->folder, why);
	FILE *file;

	if (r < 0)
		return r;
	file = fopen(path, "re");
	if (!file && errno == ENOENT)
		return 0;
	if (!file) {
		r = -errno;
		text_printf(why, "%s: %s", path, strerror(-r));
		return r;
	}
	r = check_file(path, file, why);
	if (r == 0)
		r = read_lines(broker->registry, path, file, why);
	fclose(file);
	return r;
}

/* The limits of the last broker hold: its file may lack some, or have been edited. */
static bool follows_another(const struct registry *registry)
{
	return registry->records && records_boot(registry->records) > 1;
}

int limits_file_open(struct broker *broker, const char *path, struct text *why)
{
	struct limits_file *limits_file;
	char *slash;

	if (geteuid() != 0) {
		text_printf(why, "%s: only root's broker keeps limits", path);
		return -EPERM;
	}
	limits_file = calloc(1, sizeof(*limits_file));
	if (!limits_file)
		return -ENOMEM;
	if (workqueue_init(&limits_file->queue, 1, 1) < 0) {
		free(limits_file);
		return -EAGAIN;
	}
	broker->limits_file = limits_file;
	/* The file itself, so that a link stays when the file is replaced. */
	limits_file->path = realpath(path, NULL) ?: strdup(path);
	limits_file->folder = limits_file->path ? strdup(limits_file->path) : NULL;
	if (!limits_file->folder)
		return -ENOMEM;
	slash = strrchr(limits_file->folder, '/');
	slash[slash == limits_file->folder] = '\0';
	return follows_another(broker->registry) ? 0 : read_file(broker, why);
}

void limits_file_free(struct broker *broker)
{
	struct limits_file *limits_file = take_ptr(broker->limits_file);

	if (!limits_file)
		return;
	workqueue_deinit(&limits_file->queue);
	free(limits_file->path);
	free(limits_file->folder);
	free(limits_file);
}

/* ---- writing ---- */

static void print_limits(struct text *text, const char *name, const struct limits *limits)
{
	for (int i = 0; i < N_LIMITS; i++) {
		if (!(limits->given >> i & 1))
			continue;
		text_printf(text, "%s %s ", name,
			    share_key((enum share)i, (char[SHARE_KEY_SIZE]){ 0 }));
		limit_print(text, limits->max[i]);
		text_printf(text, "%s\n", limits->own >> i & 1 ? " own" : "");
	}
}

static void print_all(struct registry *registry, struct text *text)
{
	const struct owner *owner, *safe;
	char name[16];

	text_printf(text, "%s", intro);
	pthread_mutex_lock(&registry->lock);
	print_limits(text, "default", &registry->limits);
	HASH_ITER (hh, registry->owners_by_uid, owner, safe) {
		snprintf(name, sizeof(name), "%u", owner->uid);
		print_limits(text, name, &owner->shares.limits);
	}
	pthread_mutex_unlock(&registry->lock);
}

/* Returns: 0; -errno. */
static int replace(const struct broker *broker, const struct text *text)
{
	struct processes *processes = broker->processes;
	_cleanup_close_ int fd = -1;
	ssize_t n;

	if (text_failed(text))
		return -ENOMEM;
	fd = memfd_create("limits", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = write(fd, text->data, text->length);
	if (n < 0)
		return -errno;
	if ((size_t)n < text->length)
		return -EIO;
	return outside_replace(&processes->outside, processes->worker_program,
			       broker->limits_file->path, fd);
}

static void explain(const char *path, int error, struct text *why)
{
	text_printf(why, "the limit holds, but the next mount will not have it: %s ",
		    path);
	if (error == ETIMEDOUT)
		text_printf(why,
			    "has not been written in %d s: a program may keep the lock "
			    "of its folder",
			    OUTSIDE_REPLACE_MS / 1000);
	else if (error == EBUSY)
		text_printf(why, "waits for an earlier write of it");
	else
		text_printf(why, "can't be written: %s", strerror(error));
}

static void save_run(struct task *task)
{
	struct save *save = container_of(task, struct save, task);
	struct broker *broker = save->broker;
	struct completion *wait = save->wait;
	size_t length = save->length;
	_cleanup_text_ struct text all = TEXT_INIT, why = TEXT_INIT;
	int r;

	print_all(broker->registry, &all);
	r = replace(broker, &all);
	if (r < 0) {
		explain(broker->limits_file->path, -r, &why);
		journal_fail(broker->journal, save->uid, save->pid, save->path, EIO,
			     text_string(&why));
	}
	free(save);
	pthread_mutex_lock(&broker->registry->lock);
	registry_less_busy(broker->registry);
	pthread_mutex_unlock(&broker->registry->lock);
	wait->done(wait, r < 0 ? -EIO : 0, NULL, length);
}

void limits_file_save(struct broker *broker, const struct caller *caller,
		      const char *path, size_t length, struct completion *wait)
{
	struct save *save = calloc(1, sizeof(*save));

	if (!save) {
		wait->done(wait, -ENOMEM, NULL, 0);
		return;
	}
	*save = (struct save){
		.task = { .run = save_run, .length = TASK_SHORT },
		.broker = broker,
		.wait = wait,
		.length = length,
		.uid = caller->uid,
		.pid = caller->pid,
	};
	snprintf(save->path, sizeof(save->path), "%s", path);
	pthread_mutex_lock(&broker->registry->lock);
	broker->registry->n_busy++;
	pthread_mutex_unlock(&broker->registry->lock);
	workqueue_add(&broker->limits_file->queue, caller->uid, &save->task);
}

/* SPDX-License-Identifier: MIT */
/*
 * The keeper's side of an upgrade. A forked process plays the old broker; this program,
 * started by the keeper, plays the new one.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "keep/keeper.h"

static const struct keep_key records = { KEEP_RECORDS, 0, 0 };
static const struct keep_key block = { KEEP_BLOCK, 1, 1 };

/* Before main(), where the keeper has started this program. */
__attribute__((constructor)) static void play_new_broker(void)
{
	struct keep *keep;

	if (!getenv(KEEP_ENV))
		return;
	if (keep_open(&keep) == 0 && keep_stand_by(keep) == 0 &&
	    keep_take_over(keep) == 0)
		pause();
	_exit(EXIT_FAILURE);
}

/* A thread of the old broker has begun to put the descriptor before the pause. */
static _Noreturn void play_old_broker(int socket, const sigset_t *signals, int late)
{
	const struct keep_key none = { 0 };
	int signal;

	if (sigwait(signals, &signal) == 0 &&
	    keep_send(socket, KEEP_PAUSED, none, -1) == 0 &&
	    keep_send(socket, KEEP_PUT, block, late) == 0)
		pause();
	_exit(EXIT_FAILURE);
}

static struct child old_broker(int late)
{
	sigset_t signals;
	int ends[2];
	pid_t pid;

	sigemptyset(&signals);
	sigaddset(&signals, KEEP_PAUSE_SIGNAL);
	cr_assert(eq(int, sigprocmask(SIG_BLOCK, &signals, NULL), 0));
	cr_assert(
		eq(int, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0));
	pid = fork();
	if (pid == 0)
		play_old_broker(ends[1], &signals, late);
	close(ends[1]);
	return (struct child){ .pid = pid, .socket = ends[0] };
}

static void say(void *userdata, const char *sentence)
{
	(void)userdata;
	cr_log_warn("%s", sentence);
}

static void drop(void *userdata, const char *sentence)
{
	(void)userdata;
	(void)sentence;
}

static char *argv[] = { (char *)"new", NULL };
static struct keeper_config config = {
	.argv = argv,
	.mountpoint = "/nowhere",
	.hang_s = 60,
	.say = say,
	.note = drop,
};
static struct keeper keeper = {
	.config = &config,
	.path = (char *)"/proc/self/exe",
	.program = -1,
	.before = -1,
	.standby = CHILD_NONE,
};

static void keeper_begin(void)
{
	memset(keeper.spare, -1, sizeof(keeper.spare));
	cr_assert(eq(int, keeper_places_take(&config.places), 0));
	cr_assert(eq(int, keeper_environment_set(&keeper), 0));
	keeper.blank = memfd_create("blank", MFD_CLOEXEC);
	for (size_t i = 0; i < N_CLOSERS; i++)
		cr_assert(eq(int, closer_start(&keeper.closers[i]), 0));
	keeper_keep(&keeper, records, memfd_create("records", MFD_CLOEXEC));
}

/* All that is closed has been closed. */
static void keeper_stop(void)
{
	child_end(&keeper, &keeper.broker);
	for (size_t i = 0; i < N_CLOSERS; i++)
		closer_end(&keeper.closers[i]);
}

static bool is_kept(struct keep_key key)
{
	struct entry *entry;

	HASH_FIND(hh, keeper.entries, &key, sizeof(key), entry);
	return entry;
}

static bool is_open(const char *name)
{
	DIR *folder = opendir("/proc/self/fd");
	const struct dirent *entry;
	char link[64];
	bool found = false;
	ssize_t length;

	while ((entry = readdir(folder))) {
		length = readlinkat(dirfd(folder), entry->d_name, link, sizeof(link) - 1);
		link[MAX(length, (ssize_t)0)] = '\0';
		found |= strstr(link, name) != NULL;
	}
	closedir(folder);
	return found;
}

/* No record names it. The new broker was given all before, and would never drop it. */
Test(upgrade, what_comes_behind_the_pause_is_closed, .timeout = 60)
{
	int late;

	keeper_begin();
	late = memfd_create("late", MFD_CLOEXEC);
	keeper.broker = old_broker(late);
	close(late);
	keeper_upgrade(&keeper);
	cr_assert(gt(int, keeper.program, 0));
	cr_expect(is_kept(records));
	cr_expect(not(is_kept(block)));
	keeper_stop();
	cr_expect(not(is_open("late")));
}

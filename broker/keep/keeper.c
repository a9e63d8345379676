/* SPDX-License-Identifier: MIT */
/*
 * The keeper's process. One thread; a broker is its only child, and dies with it.
 *
 * A broker that dies is followed by another at once. Three that die without one request
 * answered in between are a bug that would come again: from then on the keeper waits, 1,
 * 2, 4 to 60 seconds. The descriptors are kept all the while. A broker whose housekeeper
 * is stuck is killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <uthash.h>

#include "base/clock.h"
#include "base/def.h"
#include "keep/message.h"

#define DEATHS_IN_A_ROW 3
#define WAIT_MAX_MS	60000
#define TICK_MS		1000

struct entry {
	struct keep_key key;
	int fd;
	UT_hash_handle hh;
};

struct keeper {
	const struct keeper_config *config;
	struct entry *entries; /* by key */
	int signals;	       /* signalfd */
	sigset_t mask;	       /* before the keeper's */
	pid_t broker;	       /* 0: none */
	int socket;	       /* to the broker */
	int status;	       /* of the last broker, as of waitpid() */
	bool was_ready;	       /* any broker */
	bool ends;	       /* the broker says so, or a signal */
	unsigned int n_deaths; /* without an answered request */
	bool beats;	       /* this broker does */
	unsigned int n_ticks;  /* since the last beat */
};

/* ---- descriptors ---- */

static void entry_drop(struct keeper *keeper, struct keep_key key)
{
	struct entry *entry;

	HASH_FIND(hh, keeper->entries, &key, sizeof(key), entry);
	if (!entry)
		return;
	HASH_DEL(keeper->entries, entry);
	close(entry->fd);
	free(entry);
}

/* Without memory the descriptor is lost: the next broker does not get it. */
static void entry_put(struct keeper *keeper, struct keep_key key, int fd)
{
	struct entry *entry = calloc(1, sizeof(*entry));

	entry_drop(keeper, key);
	if (!entry) {
		close(fd);
		return;
	}
	entry->key = key;
	entry->fd = fd;
	HASH_ADD(hh, keeper->entries, key, sizeof(entry->key), entry);
}

static void entries_free(struct keeper *keeper)
{
	while (keeper->entries)
		entry_drop(keeper, keeper->entries->key);
}

/* ---- words of the broker ---- */

static void take_word(struct keeper *keeper, const struct keep_message *message, int fd)
{
	if (message->word == KEEP_PUT && fd >= 0) {
		entry_put(keeper, message->key, take_fd(&fd));
	} else if (message->word == KEEP_DROP) {
		entry_drop(keeper, message->key);
		(void)send(keeper->socket, message, sizeof(*message), MSG_NOSIGNAL);
	} else if (message->word == KEEP_READY) {
		if (!keeper->was_ready && keeper->config->ready)
			keeper->config->ready(keeper->config->userdata);
		keeper->was_ready = true;
		keeper->beats = true;
		keeper->n_deaths = 0;
	} else if (message->word == KEEP_BEAT) {
		keeper->beats = true;
		keeper->n_ticks = 0;
	} else if (message->word == KEEP_END) {
		keeper->ends = true;
	}
	closep(&fd);
}

/* Returns: whether there was one. */
static bool hear(struct keeper *keeper)
{
	struct keep_message message;
	int fd, r = keep_receive(keeper->socket, MSG_DONTWAIT, &message, &fd);

	if (r == 0)
		take_word(keeper, &message, fd);
	return r == 0 || r == -EPROTO;
}

/* ---- the broker's process ---- */

static void say(const struct keeper *keeper, const char *format, unsigned int number)
{
	char sentence[128];

	snprintf(sentence, sizeof(sentence), format, number);
	keeper->config->say(keeper->config->userdata, sentence);
}

static _Noreturn void become_broker(const struct keeper *keeper, pid_t parent, int socket)
{
	char end[16];

	/* Without its keeper the broker is lost: its memory goes with both. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_FAILURE);
	snprintf(end, sizeof(end), "%d", socket);
	setenv(KEEP_ENV, end, 1);
	setenv(KEEP_ENV_MOUNTPOINT, keeper->config->mountpoint, 1);
	if (keeper->config->driver)
		setenv(KEEP_ENV_DRIVER, keeper->config->driver, 1);
	sigprocmask(SIG_SETMASK, &keeper->mask, NULL);
	execv("/proc/self/exe", keeper->config->argv);
	_exit(EXIT_FAILURE);
}

/* Gives a broker all that the last one left. One that dies meanwhile is followed. */
static void broker_give(const struct keeper *keeper)
{
	const struct entry *entry;
	int r = 0;

	for (entry = keeper->entries; entry && r == 0; entry = entry->hh.next)
		r = keep_send(keeper->socket, KEEP_PUT, entry->key, entry->fd);
	if (r == 0)
		(void)keep_send(keeper->socket, KEEP_ALL, (struct keep_key){ 0 }, -1);
}

/* Returns: 0; -errno. */
static int broker_start(struct keeper *keeper)
{
	pid_t parent = getpid();
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) < 0)
		return -errno;
	(void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
	keeper->broker = fork();
	if (keeper->broker == 0)
		become_broker(keeper, parent, ends[1]);
	close(ends[1]);
	if (keeper->broker < 0) {
		close(ends[0]);
		keeper->broker = 0;
		return -errno;
	}
	keeper->socket = ends[0];
	keeper->beats = false;
	keeper->n_ticks = 0;
	broker_give(keeper);
	return 0;
}

/* Takes all signals that have come. */
static void take_signals(struct keeper *keeper)
{
	struct signalfd_siginfo info;

	while (read(keeper->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		if (keeper->broker)
			kill(keeper->broker, (int)info.ssi_signo);
		else
			keeper->ends = true;
	}
	if (keeper->broker && waitpid(keeper->broker, &keeper->status, WNOHANG) > 0)
		keeper->broker = 0;
}

/*
 * Counts seconds in which the keeper ran, so a machine that was asleep is no hang. Beats
 * that have come are heard first.
 */
static void tick(struct keeper *keeper, int64_t *last_ms)
{
	int64_t now_ms = clock_ms();

	if (now_ms - *last_ms < TICK_MS)
		return;
	*last_ms = now_ms;
	if (!keeper->beats || ++keeper->n_ticks <= keeper->config->hang_s)
		return;
	say(keeper, "the broker does nothing any more, for %u seconds, and is killed",
	    keeper->config->hang_s);
	kill(keeper->broker, SIGKILL);
	keeper->beats = false;
}

/* Serves until the broker has ended, with all that it has said. */
static void broker_serve(struct keeper *keeper)
{
	struct pollfd ends[2] = { { .fd = keeper->signals, .events = POLLIN },
				  { .fd = keeper->socket, .events = POLLIN } };
	int64_t last_ms = clock_ms();

	while (keeper->broker) {
		if (poll(ends, 2, TICK_MS) < 0)
			continue;
		if (ends[1].revents && !hear(keeper))
			ends[1].fd = -1;
		if (ends[0].revents)
			take_signals(keeper);
		if (keeper->broker && !ends[1].revents)
			tick(keeper, &last_ms);
	}
	while (hear(keeper))
		;
	closep(&keeper->socket);
}

/* Milliseconds before the nth try after those that were made at once. */
static int64_t wait_before(unsigned int n)
{
	return n < 6 ? 1000LL << n : WAIT_MAX_MS;
}

/* Returns: whether another broker follows. */
static bool broker_follows(struct keeper *keeper)
{
	struct pollfd signals = { .fd = keeper->signals, .events = POLLIN };
	int64_t wait_ms = 0, until_ms;

	if (keeper->ends || !keeper->was_ready)
		return false;
	if (WIFSIGNALED(keeper->status))
		say(keeper, "the broker was killed by signal %u",
		    (unsigned int)WTERMSIG(keeper->status));
	else
		say(keeper, "the broker ended with status %u",
		    (unsigned int)WEXITSTATUS(keeper->status));
	if (++keeper->n_deaths >= DEATHS_IN_A_ROW)
		wait_ms = wait_before(keeper->n_deaths - DEATHS_IN_A_ROW);
	until_ms = clock_ms() + wait_ms;
	while (!keeper->ends && wait_ms > 0) {
		if (poll(&signals, 1, (int)wait_ms) > 0)
			take_signals(keeper);
		wait_ms = until_ms - clock_ms();
	}
	return !keeper->ends;
}

int keeper_run(const struct keeper_config *config)
{
	static const int taken[] = { SIGCHLD, SIGHUP, SIGINT, SIGTERM };
	struct keeper keeper = { .config = config, .socket = -1 };
	sigset_t signals;
	int r = 0;

	sigemptyset(&signals);
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		sigaddset(&signals, taken[i]);
	sigprocmask(SIG_BLOCK, &signals, &keeper.mask);
	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)prctl(PR_SET_NAME, "gpumemd-keeper");
	keeper.signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (keeper.signals < 0)
		r = -errno;
	do {
		if (r == 0)
			r = broker_start(&keeper);
		if (r == 0)
			broker_serve(&keeper);
	} while (r == 0 && broker_follows(&keeper));
	if (r < 0)
		say(&keeper, "no broker can be started: error %u", (unsigned int)-r);
	entries_free(&keeper);
	closep(&keeper.signals);
	sigprocmask(SIG_SETMASK, &keeper.mask, NULL);
	if (r < 0 || !WIFEXITED(keeper.status))
		return EXIT_FAILURE;
	return WEXITSTATUS(keeper.status);
}

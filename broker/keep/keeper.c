/* SPDX-License-Identifier: MIT */
/*
 * The keeper's process. One thread and those that close descriptors (closer.h), and two
 * children, which die with the keeper: a broker, and a standby for the next one
 * (standby.c).
 *
 * A broker that dies is followed by another at once. After three deaths without an
 * answered request in between, the next broker would die of the same bug: the keeper then
 * waits before each start, 1, 2, 4 to 60 seconds. The descriptors are kept meanwhile. The
 * same is done where no broker can be started, for lack of descriptors or memory. A
 * broker whose housekeeper is stuck is killed.
 *
 * A restart of the service ends the keeper, too: all goes to the next one (restart.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/def.h"
#include "base/descriptor.h"
#include "keep/keeper.h"

#define DEATHS_IN_A_ROW 3
#define WAIT_MAX_MS	60000
#define TICK_MS		1000
#define START_MOST_MS	120000 /* that a start may take without a word */
#define CLOSES_BEHIND	8      /* that a broker does not wait for */

/* ---- descriptors ---- */

static struct entry *entry_take(struct keeper *keeper, struct keep_key key)
{
	struct entry *entry;

	HASH_FIND(hh, keeper->entries, &key, sizeof(key), entry);
	if (entry)
		HASH_DEL(keeper->entries, entry);
	return entry;
}

static struct entry *entry_new(struct keep_key key, int fd)
{
	struct entry *entry = calloc(1, sizeof(*entry));

	if (entry)
		*entry = (struct entry){ .key = key, .fd = fd, .asker = -1 };
	return entry;
}

static unsigned int closer_of(const struct entry *entry, bool may_be_locked)
{
	if (entry->key.kind == KEEP_LIFETIME || entry->key.kind == KEEP_PROCESS)
		return CLOSER_OF_PROCESSES;
	return may_be_locked ? CLOSER_OF_LOCKED : CLOSER_OF_OTHERS;
}

/* asker: see struct entry. */
static void entry_close(struct keeper *keeper, struct entry *entry, int asker,
			bool may_be_locked)
{
	entry->asker = asker;
	closer_add(&keeper->closers[closer_of(entry, may_be_locked)], entry);
}

/* Without memory the next broker does not get this descriptor. */
void keeper_keep(struct keeper *keeper, struct keep_key key, int fd)
{
	struct entry *before = entry_take(keeper, key), *entry = entry_new(key, fd);

	if (before)
		entry_close(keeper, before, -1, false);
	if (entry)
		HASH_ADD(hh, keeper->entries, key, sizeof(entry->key), entry);
	else
		close(fd);
}

/* Users may make the close of such a descriptor last, too. */
static void close_unkept(struct keeper *keeper, struct keep_key key, int fd)
{
	struct entry *entry = entry_new(key, fd);

	if (entry)
		entry_close(keeper, entry, -1, false);
	else
		close(fd);
}

static void entries_free(struct keeper *keeper)
{
	struct entry *entry, *next;

	HASH_ITER (hh, keeper->entries, entry, next)
		entry_close(keeper, entry_take(keeper, entry->key), -1, false);
}

void keeper_spare_close(struct keeper *keeper)
{
	for (size_t i = 0; i < N_SPARE; i++)
		closep(&keeper->spare[i]);
}

/* Nobody else has these files, so nobody makes their closes last. */
void keeper_spare_open(struct keeper *keeper)
{
	for (size_t i = 0; i < N_SPARE; i++) {
		if (keeper->spare[i] < 0)
			keeper->spare[i] = memfd_create("gpumem-spare", MFD_CLOEXEC);
	}
}

/* ---- words of the broker ---- */

static void note_ready(struct keeper *keeper)
{
	if (!keeper->was_ready && keeper->config->ready)
		keeper->config->ready(keeper->config->userdata);
	keeper->was_ready = true;
}

/* A broker is told in time that there is no room: only a lowered limit leads here. */
static void note_lost(struct keeper *keeper)
{
	if (keeper->n_lost++ == 0)
		keeper_say(keeper,
			   "the keeper is at its limit of %llu open files: memory made "
			   "now is lost if the broker dies",
			   (unsigned long long)descriptors_most());
}

void keeper_answer(int socket, struct keep_key key)
{
	if (!descriptor_is_left())
		key.kind = KEEP_FULL;
	(void)keep_send(socket, KEEP_DROP, key, -1);
}

/*
 * Whether a broker that asks for room waits for closes: where there is no room, and where
 * closes are late, so that a user's loop of puts does not fill the keeper.
 */
static bool room_comes_later(struct keeper *keeper)
{
	return closer_n_open(&keeper->closers[CLOSER_OF_OTHERS]) > CLOSES_BEHIND ||
	       !descriptor_is_left();
}

/* Drops a descriptor for a broker that waits. A drop of nothing asks for room. */
static void drop_and_answer(struct keeper *keeper, const struct child *child,
			    const struct keep_message *message)
{
	struct entry *entry = entry_take(keeper, message->key);

	if (!entry && !message->key.kind && room_comes_later(keeper))
		entry = entry_new(message->key, -1);
	if (entry)
		entry_close(keeper, entry, child->socket,
			    message->word == KEEP_DROP_LATE);
	else
		keeper_answer(child->socket, message->key);
}

static void forget(struct keeper *keeper, struct keep_key key)
{
	struct entry *entry = entry_take(keeper, key);

	if (entry)
		entry_close(keeper, entry, -1, false);
}

/* Words without a descriptor. */
static void take_plain_word(struct keeper *keeper, struct child *child,
			    const struct keep_message *message)
{
	if (message->word == KEEP_DROP || message->word == KEEP_DROP_LATE) {
		drop_and_answer(keeper, child, message);
	} else if (message->word == KEEP_FORGET) {
		forget(keeper, message->key);
	} else if (message->word == KEEP_PUT) {
		note_lost(keeper);
	} else if (message->word == KEEP_READY) {
		note_ready(keeper);
		keeper_spare_open(keeper);
		standby_allow(keeper);
		child->beats = child->ready = true;
		keeper->n_deaths = 0;
	} else if (message->word == KEEP_BEAT) {
		child->beats = true;
		child->n_ticks = 0;
	} else if (message->word == KEEP_END) {
		keeper->ends = true;
	} else if (message->word == KEEP_ASK) {
		child->asks = true;
	} else if (message->word == KEEP_PAUSED) {
		child->paused = true;
	} else if (message->word == KEEP_BUSY) {
		child->busy = true;
		child->n_left = message->key.number;
	}
}

bool child_hear(struct keeper *keeper, struct child *child)
{
	struct keep_message message;
	char text[KEEP_TEXT_BYTES];
	int fd, r = keep_receive_text(child->socket, MSG_DONTWAIT, &message, &fd, text);

	if (r == 0 && message.word == KEEP_TELL) {
		if (keeper->config->tell)
			keeper->config->tell(keeper->config->userdata, text);
	} else if (r == 0 && message.word == KEEP_PUT && fd >= 0 && child->is_followed) {
		/* No record names the descriptor: after the pause none was saved. */
		close_unkept(keeper, message.key, take_fd(&fd));
	} else if (r == 0 && message.word == KEEP_PUT && fd >= 0) {
		/* From here on the program before may not understand the records. */
		if (message.key.kind == KEEP_RECORDS)
			closep(&keeper->before);
		keeper_keep(keeper, message.key, take_fd(&fd));
	} else if (r == 0) {
		take_plain_word(keeper, child, &message);
	}
	closep(&fd);
	return r == 0 || r == -EPROTO;
}

/* ---- sentences ---- */

static void say_by(void (*say)(void *userdata, const char *sentence), void *userdata,
		   const char *format, va_list args)
{
	char sentence[PATH_MAX + 128];

	(void)vsnprintf(sentence, sizeof(sentence), format, args);
	say(userdata, sentence);
}

void keeper_say(const struct keeper *keeper, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say_by(keeper->config->say, keeper->config->userdata, format, args);
	va_end(args);
}

void keeper_note(const struct keeper *keeper, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say_by(keeper->config->note, keeper->config->userdata, format, args);
	va_end(args);
}

/* No broker follows, also when this one is too young to end as it should. */
static void note_end(struct keeper *keeper, int signal)
{
	keeper->ends = true;
	if (keeper->broker.pid)
		kill(keeper->broker.pid, signal);
}

/* Takes all signals that have come. */
static void take_signals(struct keeper *keeper)
{
	struct signalfd_siginfo info;

	while (read(keeper->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		if (info.ssi_signo == SIGHUP)
			keeper->upgrades = true;
		else if (info.ssi_signo == KEEP_RESTART_SIGNAL)
			keeper->restarts = true;
		else
			note_end(keeper, (int)info.ssi_signo);
	}
	child_reap(&keeper->broker);
	child_reap(&keeper->standby);
}

/*
 * Counts seconds in which the keeper ran, so sleep of the machine is no hang. A beat
 * waits behind other messages for less than a second.
 */
static void tick(struct keeper *keeper, int64_t *last_ms)
{
	struct child *broker = &keeper->broker;
	int64_t now_ms = clock_ms();

	if (now_ms - *last_ms < TICK_MS)
		return;
	*last_ms = now_ms;
	if (!broker->beats || ++broker->n_ticks <= keeper->config->hang_s)
		return;
	keeper_say(keeper,
		   "the broker does nothing any more, for %u seconds, and is killed",
		   keeper->config->hang_s);
	kill(broker->pid, SIGKILL);
	broker->beats = false;
}

/* Answers a broker that waits, and does what signals asked for. */
static void answer(struct keeper *keeper)
{
	if (keeper->broker.asks)
		note_ready(keeper);
	if (keeper->broker.asks || keeper->broker.paused)
		child_go_on(&keeper->broker);
	/* A broker is not upgraded before its first beat. */
	if (keeper->upgrades && keeper->was_ready && keeper->broker.pid &&
	    keeper->broker.beats) {
		keeper->upgrades = false;
		keeper_spare_close(keeper);
		keeper_upgrade(keeper);
		if (keeper->broker.ready)
			keeper_spare_open(keeper);
	}
	if (keeper->restarts) {
		keeper_spare_close(keeper);
		keeper_restart(keeper);
	}
}

/* Serves until the broker has ended and its last message was read. */
static void broker_serve(struct keeper *keeper)
{
	struct pollfd ends[2] = { { .fd = keeper->signals, .events = POLLIN },
				  { .events = POLLIN } };
	int64_t last_ms = clock_ms();
	pid_t silent = 0;

	while (keeper->broker.pid) {
		ends[1].fd = keeper->broker.pid == silent ? -1 : keeper->broker.socket;
		if (poll(ends, 2, TICK_MS) < 0)
			continue;
		if (ends[1].revents && !child_hear(keeper, &keeper->broker))
			silent = keeper->broker.pid;
		if (ends[0].revents)
			take_signals(keeper);
		answer(keeper);
		if (keeper->broker.pid)
			tick(keeper, &last_ms);
		standby_look(keeper);
	}
	while (child_hear(keeper, &keeper->broker))
		;
	child_close(keeper, &keeper->broker);
}

int64_t keeper_wait_ms(unsigned int n)
{
	return n < 6 ? 1000LL << n : WAIT_MAX_MS;
}

static void say_end(const struct keeper *keeper)
{
	int status = keeper->broker.status;

	if (WIFSIGNALED(status))
		keeper_say(keeper, "the broker was killed by signal %d",
			   WTERMSIG(status));
	else
		keeper_say(keeper, "the broker ended with status %d",
			   WEXITSTATUS(status));
}

/* The program of the next broker: as a rule that of the last one. */
static void choose_program(struct keeper *keeper)
{
	int newer = keeper->upgrades ? open(keeper->path, O_RDONLY | O_CLOEXEC) : -1;

	keeper->upgrades = false;
	if (newer < 0 && keeper->before >= 0) {
		keeper_say(keeper,
			   "the new program ended before it had the records: the one "
			   "before goes on");
		newer = take_fd(&keeper->before);
	}
	if (newer < 0)
		return;
	standby_drop(keeper);
	closep(&keeper->program);
	keeper->program = newer;
}

static void say_no_start(struct keeper *keeper, int error)
{
	keeper_say(keeper,
		   "no broker can be started: %s; the memory stays, and another try "
		   "follows",
		   strerror(-error));
	/* The next start waits, as after many deaths. */
	keeper->n_deaths = MAX(keeper->n_deaths, DEATHS_IN_A_ROW - 1U);
}

/*
 * A keeper whose brokers can't go on yet holds the memory of the last keeper. A service
 * manager sees a start that takes too long, and would free all memory when the time for
 * a start is up.
 */
static void ask_for_time(const struct keeper *keeper, int64_t wait_ms)
{
	char text[64];

	if (!keeper->goes_on || keeper->was_ready || !keeper->config->tell)
		return;
	snprintf(text, sizeof(text), "EXTEND_TIMEOUT_USEC=%lld",
		 (long long)(wait_ms + START_MOST_MS) * 1000);
	keeper->config->tell(keeper->config->userdata, text);
}

/* error: of the last start, or 0. Returns: whether another broker follows. */
static bool broker_follows(struct keeper *keeper, int error)
{
	struct pollfd signals = { .fd = keeper->signals, .events = POLLIN };
	int64_t wait_ms = 0, until_ms;

	if (keeper->ends || !(keeper->was_ready || keeper->goes_on))
		return false;
	if (error < 0)
		say_no_start(keeper, error);
	else
		say_end(keeper);
	if (++keeper->n_deaths >= DEATHS_IN_A_ROW)
		wait_ms = keeper_wait_ms(keeper->n_deaths - DEATHS_IN_A_ROW);
	until_ms = clock_ms() + wait_ms;
	ask_for_time(keeper, wait_ms);
	/* A newer program may be better, and starts without waiting. */
	while (!keeper->ends && !keeper->upgrades && wait_ms > 0) {
		if (poll(&signals, 1, (int)wait_ms) > 0)
			take_signals(keeper);
		if (keeper->restarts)
			keeper_restart(keeper);
		wait_ms = until_ms - clock_ms();
	}
	choose_program(keeper);
	return !keeper->ends;
}

/* Returns: 0; -errno. */
static int keeper_init(struct keeper *keeper)
{
	static const int taken[] = { SIGCHLD, SIGHUP, SIGINT, SIGTERM,
				     KEEP_RESTART_SIGNAL };
	sigset_t signals;
	int r;

	sigemptyset(&signals);
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		sigaddset(&signals, taken[i]);
	sigprocmask(SIG_BLOCK, &signals, &keeper->mask);
	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)prctl(PR_SET_NAME, "gpumemd-keeper");
	keeper->path = realpath("/proc/self/exe", NULL);
	keeper->program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	keeper->blank = memfd_create("gpumem-spare", MFD_CLOEXEC);
	keeper->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (!keeper->path || keeper->program < 0 || keeper->blank < 0 ||
	    keeper->signals < 0)
		return -errno;
	r = keeper_environment_set(keeper);
	for (size_t i = 0; r == 0 && i < N_CLOSERS; i++)
		r = closer_start(&keeper->closers[i]);
	return r;
}

/* Returns: 0; -errno. */
static int start_broker(struct keeper *keeper)
{
	int r;

	if (standby_use(keeper))
		return 0;
	r = child_start(keeper, keeper->program, &keeper->broker);
	/* The end of a killed broker is noticed as any other. */
	if (r == 0)
		(void)child_give(keeper, &keeper->broker);
	return r;
}

/* One broker after another. Returns: 0; -errno: no broker could be started ever. */
static int run_brokers(struct keeper *keeper)
{
	int r;

	do {
		r = start_broker(keeper);
		keeper->n_lost = 0;
		if (r == 0)
			broker_serve(keeper);
		keeper_spare_close(keeper);
	} while (broker_follows(keeper, r));
	return keeper->was_ready || keeper->goes_on ? 0 : r;
}

int keeper_run(const struct keeper_config *config, bool *ret_leaves)
{
	struct keeper keeper = { .config = config,
				 .signals = -1,
				 .program = -1,
				 .before = -1,
				 .blank = -1,
				 .broker = CHILD_NONE,
				 .standby = CHILD_NONE };
	int status, r;

	memset(keeper.spare, -1, sizeof(keeper.spare));
	r = keeper_init(&keeper);
	keeper_begin_with_left(&keeper);
	if (r == 0)
		r = run_brokers(&keeper);
	if (r < 0)
		keeper_say(&keeper, "no broker can be started: %s", strerror(-r));
	standby_drop(&keeper);
	status = keeper.leaves ? 0 : keeper.broker.status;
	/* Before the first answer nothing was taken from the last keeper's sockets. */
	*ret_leaves =
		keeper.leaves || (keeper.goes_on && !keeper.was_ready && !keeper.ends);
	entries_free(&keeper);
	for (size_t i = 0; i < N_CLOSERS; i++)
		closer_end(&keeper.closers[i]);
	closep(&keeper.blank);
	closep(&keeper.program);
	closep(&keeper.before);
	closep(&keeper.signals);
	free(keeper.path);
	sigprocmask(SIG_SETMASK, &keeper.mask, NULL);
	if (r < 0 || !WIFEXITED(status))
		return EXIT_FAILURE;
	return WEXITSTATUS(status);
}

/* SPDX-License-Identifier: MIT */
/*
 * An upgrade: the broker of a newer program follows a living broker.
 *
 * The old broker stops reading requests, finishes those it has, and from then on changes
 * nothing. The new broker starts as after a death: checks the records, makes all objects
 * anew, and asks to take over. Only then the old broker is killed, and the new one told
 * to go on. If the new program fails before that, nothing is lost and the old broker goes
 * on.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/def.h"
#include "keep/keeper.h"

#define LOOK_MS	 100
#define MARGIN_S 5

/* For each of the two steps. */
unsigned int keeper_patience_s(const struct keeper *keeper)
{
	return MIN(keeper->config->hang_s, (unsigned int)KEEP_UPGRADE_S);
}

/* Hears a broker until the flag is set, or the broker has ended. */
static void hear_until(struct keeper *keeper, struct child *child, const bool *flag,
		       int64_t until_ms)
{
	struct pollfd words = { .fd = child->socket, .events = POLLIN };

	while (!*flag && !child->busy && child->pid && clock_ms() < until_ms) {
		if (poll(&words, 1, LOOK_MS) > 0 && !child_hear(keeper, child))
			words.fd = -1;
		child_reap(child);
	}
	/* The last messages. */
	while (!*flag && !child->busy && child_hear(keeper, child))
		;
}

bool keeper_pause(struct keeper *keeper)
{
	struct child *broker = &keeper->broker;

	broker->busy = broker->paused = false;
	kill(broker->pid, KEEP_PAUSE_SIGNAL);
	hear_until(keeper, broker, &broker->paused,
		   clock_ms() + (keeper_patience_s(keeper) + MARGIN_S) * 1000);
	return broker->paused && broker->pid;
}

static void say_no_pause(const struct keeper *keeper)
{
	const struct child *broker = &keeper->broker;

	if (broker->busy)
		keeper_say(keeper,
			   "no upgrade: %u operation%s of users %s not done after %u "
			   "seconds; the broker goes on",
			   broker->n_left, broker->n_left == 1 ? "" : "s",
			   broker->n_left == 1 ? "was" : "were",
			   keeper_patience_s(keeper));
	else if (broker->pid)
		keeper_say(keeper, "no upgrade: the broker does not answer");
}

void child_end(struct keeper *keeper, struct child *child)
{
	if (child->pid) {
		kill(child->pid, SIGKILL);
		while (waitpid(child->pid, &child->status, 0) < 0 && errno == EINTR)
			;
		child->pid = 0;
	}
	while (child_hear(keeper, child))
		;
	child_close(keeper, child);
}

/* Returns: whether the new broker has made everything, and asks to take over. */
static bool next_asks(struct keeper *keeper, int program, struct child *next)
{
	int64_t until_ms = clock_ms() + keeper_patience_s(keeper) * 1000;
	int r = child_start(keeper, program, next);

	if (r == 0) {
		(void)child_give(keeper, next);
		hear_until(keeper, next, &next->asks, until_ms);
	}
	if (r == 0 && next->asks && next->pid)
		return true;
	if (r < 0)
		keeper_say(keeper, "no upgrade: the new program can't be started: %s",
			   strerror(-r));
	else if (next->pid)
		keeper_say(
			keeper,
			"no upgrade: the new program was not ready after %u seconds; the "
			"broker goes on",
			keeper_patience_s(keeper));
	else if (WIFSIGNALED(next->status))
		keeper_say(
			keeper,
			"no upgrade: the new program was killed by signal %d before it "
			"was ready; the broker goes on",
			WTERMSIG(next->status));
	else
		keeper_say(
			keeper,
			"no upgrade: the new program ended with status %d before it was "
			"ready; the broker goes on",
			WEXITSTATUS(next->status));
	return false;
}

static void hand_over(struct keeper *keeper, int program, struct child *next)
{
	/* The next broker would never drop what this one has put since the pause. */
	keeper->broker.is_followed = true;
	child_end(keeper, &keeper->broker);
	closep(&keeper->before);
	keeper->before = keeper->program;
	keeper->program = program;
	keeper->broker = *next;
	keeper->n_deaths = 0;
	keeper_note(keeper, "upgraded: broker %d runs %s", (int)next->pid, keeper->path);
	child_go_on(&keeper->broker);
}

void keeper_upgrade(struct keeper *keeper)
{
	_cleanup_close_ int program = open(keeper->path, O_RDONLY | O_CLOEXEC);
	struct child next = CHILD_NONE;

	if (program < 0) {
		keeper_say(keeper, "no upgrade: %s: %s; the broker goes on", keeper->path,
			   strerror(errno));
		return;
	}
	standby_drop(keeper);
	/* A broker that pauses too late is told to go on at once (keeper.c). */
	if (!keeper_pause(keeper)) {
		say_no_pause(keeper);
		return;
	}
	if (next_asks(keeper, program, &next)) {
		hand_over(keeper, take_fd(&program), &next);
		return;
	}
	child_end(keeper, &next);
	keeper->broker.n_ticks = 0;
	child_go_on(&keeper->broker);
}

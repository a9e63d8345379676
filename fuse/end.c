/* SPDX-License-Identifier: MIT */
#include "end.h"

#include "api/broker.h"
#include "base/text.h"
#include "keep/keep.h"
#include "service.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define STATUS_MS 10000

/* Signals are read, not handled: a handler runs in any thread, and there it may wait. */
static int signals = -1;
static int asked = -1;
static bool is_kept;

void end_ask(void)
{
	eventfd_write(asked, 1);
}

int end_prepare(bool kept)
{
	sigset_t taken;

	/* The calls fail with an errno, and log a sentence. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	/* A program opens host memory while host_file_is_open_for_writing() asks. */
	signal(SIGIO, SIG_IGN);

	is_kept = kept;
	sigemptyset(&taken);
	sigaddset(&taken, SIGINT);
	sigaddset(&taken, SIGTERM);
	if (kept) {
		/* An upgrade and a restart are the keeper's. */
		signal(SIGHUP, SIG_IGN);
		sigaddset(&taken, KEEP_PAUSE_SIGNAL);
	} else {
		sigaddset(&taken, SIGHUP);
		sigaddset(&taken, KEEP_RESTART_SIGNAL);
	}
	pthread_sigmask(SIG_BLOCK, &taken, NULL);
	signals = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
	asked = eventfd(0, EFD_CLOEXEC);
	return signals < 0 || asked < 0 ? -errno : 0;
}

bool end_wait(struct broker *broker, struct keep *keep)
{
	struct pollfd ends[] = { { .fd = signals, .events = POLLIN },
				 { .fd = asked, .events = POLLIN } };
	int wait_ms = service_is_there() ? STATUS_MS : -1;
	struct signalfd_siginfo signal;

	do {
		_cleanup_text_ struct text status = TEXT_INIT;

		text_printf(&status, "STATUS=");
		broker_summary(broker, &status);
		service_tell(keep, text_string(&status));
	} while (poll(ends, ARRAY_SIZE(ends), wait_ms) <= 0);
	return read(signals, &signal, sizeof(signal)) != sizeof(signal) || !is_kept ||
	       signal.ssi_signo != (uint32_t)KEEP_PAUSE_SIGNAL;
}

/* SPDX-License-Identifier: MIT */
#include "end.h"

#include "api/broker.h"
#include "base/text.h"
#include "keep/keep.h"
#include "service.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#define STATUS_MS  10000

#define WORD_END   'e'
#define WORD_PAUSE 'p'

static int words[2] = { -1, -1 };

static void write_word(char word)
{
	ssize_t written = write(words[1], &word, 1);

	(void)written;
}

void end_ask(void)
{
	write_word(WORD_END);
}

static void on_end(int signal)
{
	int saved = errno;

	(void)signal;
	write_word(WORD_END);
	errno = saved;
}

static void on_pause(int signal)
{
	int saved = errno;

	(void)signal;
	write_word(WORD_PAUSE);
	errno = saved;
}

int end_prepare(bool kept)
{
	/* The first two are the keeper's, where there is one: an upgrade, a restart. */
	static const int signals[] = { SIGHUP, KEEP_RESTART_SIGNAL, SIGINT, SIGTERM };
	struct sigaction end = { .sa_handler = on_end, .sa_flags = SA_RESTART };
	struct sigaction pause = { .sa_handler = on_pause, .sa_flags = SA_RESTART };

	if (pipe2(words, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	for (size_t i = kept ? 2 : 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &end, NULL);
	if (kept) {
		signal(SIGHUP, SIG_IGN);
		sigaction(KEEP_PAUSE_SIGNAL, &pause, NULL);
	}
	/* The calls fail with an errno, and log a sentence. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	/* A program opens host memory while block_is_open_for_writing() asks. */
	signal(SIGIO, SIG_IGN);
	return 0;
}

bool end_wait(struct broker *broker, struct keep *keep)
{
	struct pollfd word = { .fd = words[0], .events = POLLIN };
	int wait_ms = service_is_there() ? STATUS_MS : -1;
	char byte = 0;

	do {
		_cleanup_text_ struct text status = TEXT_INIT;

		text_printf(&status, "STATUS=");
		broker_summary(broker, &status);
		service_tell(keep, text_string(&status));
	} while (poll(&word, 1, wait_ms) <= 0 || read(words[0], &byte, 1) <= 0);
	return byte == WORD_END;
}

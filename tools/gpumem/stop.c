/* SPDX-License-Identifier: MIT */
#include "stop.h"

#include "base/def.h"

#include <signal.h>
#include <stdio.h>

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
static volatile sig_atomic_t caught;

static void on_signal(int number)
{
	caught = number;
}

void stop_catch(void)
{
	/* without SA_RESTART: a wait ends with EINTR */
	const struct sigaction action = { .sa_handler = on_signal };
	struct sigaction before;

	/* nohup(1) ignores a signal, and so does a shell for what runs behind */
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (!sigaction(signals[i], NULL, &before) && before.sa_handler != SIG_IGN)
			sigaction(signals[i], &action, NULL);
}

bool stop_asked(void)
{
	return caught;
}

void stop_end(void)
{
	if (!caught)
		return;
	fflush(NULL);
	signal(caught, SIG_DFL);
	raise(caught);
}

/* SPDX-License-Identifier: MIT */
#include "base/warning.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <syslog.h>

#include "base/clock.h"
#include "base/text.h"

#define QUEUE_MAX  64  /* warnings that have not been taken */
#define RECENT_MAX 256 /* kinds of users whose warnings are counted */

const struct warning_class warning_classes[N_WARNING_KINDS] = {
	[WARNING_WORKER_ENDED] = {
		"399e117c206848308dae4c72c6496be9", LOG_WARNING,
		"A user's worker process ended before its time",
		"The process that runs a user's kernels died, or was ended for a kernel "
		"that faulted or ran too long, or because it did not give memory back. "
		"The next one starts by itself; device and host memory is kept. The "
		"user's file errors says more.",
	},
	[WARNING_WORKER_FAILED] = {
		"23f8cfb89bcf4b5aaaa4ef7ec27b2d44", LOG_ERR,
		"A user's worker process does not start",
		"Worker after worker ended with nothing done, so none is started any "
		"more. owners/UID/failure has the reason; when that is mended, a 1 "
		"written to owners/UID/reset starts the worker again.",
	},
	[WARNING_MOVER_ENDED] = {
		"8722b4ed0457419894b2c453d68ac17f", LOG_WARNING,
		"The process that moves all users' data died",
		"Another is started within a second, and its work is done again. No "
		"memory is lost. If it dies again and again, look at the GPUs "
		"(nvidia-smi, dmesg) and for a machine short of memory.",
	},
	[WARNING_MEMORY_LOST] = {
		"5cf4dc10db38489f940e9734b2d6b881", LOG_WARNING,
		"A user's allocations were lost with a worker process",
		"Memory of kind direct and async lives in the owner's worker process, "
		"and so does managed memory that was not saved in time. The owner has "
		"to free these allocations and make them anew.",
	},
	[WARNING_LIMIT] = {
		"853e58a28cd443f794531daa17141156", LOG_WARNING,
		"A user ran into a limit",
		"The user has as much of something as an owner may have, and the "
		"request was refused. The sentence names the limit.",
	},
	[WARNING_DEVICE] = {
		"22ec9a76e0954cc2a64fc2e81eec340a", LOG_ERR,
		"A GPU is gone or broken",
		"The driver says that the device is not there any more, or reports a "
		"fault of the hardware. Look at nvidia-smi and at the kernel's log "
		"(dmesg); gpumemd has to be started again once the device is back. Where "
		"the sentence names a user's worker, that user may have made it up.",
	},
	[WARNING_BROKER] = {
		"06609d9a57c5486ca958996357dd6f8f", LOG_ERR,
		"The broker could not start, or not end cleanly",
		"The sentence has the reason.",
	},
};

/* What was said of a kind and a user lately. */
struct recent {
	enum warning_kind kind;
	uid_t uid;
	int64_t until_ms;    /* end of the window; 0: the entry is free */
	unsigned int n;	     /* warnings in the window */
	struct warning last; /* of those left out */
};

struct warnings {
	pthread_mutex_t lock; /* for all below */
	pthread_cond_t change;
	bool ended;
	struct warning queue[QUEUE_MAX]; /* a ring */
	unsigned int first, n;
	struct recent recent[RECENT_MAX];
};

struct warnings *warnings_new(void)
{
	struct warnings *warnings = calloc(1, sizeof(*warnings));

	if (!warnings)
		return NULL;
	pthread_mutex_init(&warnings->lock, NULL);
	clock_cond_init(&warnings->change);
	return warnings;
}

struct warnings *warnings_free(struct warnings *warnings)
{
	if (!warnings)
		return NULL;
	pthread_cond_destroy(&warnings->change);
	pthread_mutex_destroy(&warnings->lock);
	free(warnings);
	return NULL;
}

static unsigned int n_left_out(const struct recent *recent)
{
	return recent->until_ms && recent->n > WARNINGS_IN_WINDOW
		       ? recent->n - WARNINGS_IN_WINDOW
		       : 0;
}

/* Whether the entry may be taken for another kind and user. */
static bool recent_is_over(const struct recent *recent, int64_t now_ms)
{
	return recent->until_ms <= now_ms && !n_left_out(recent);
}

/* The entry of a kind and user. NULL: all are in use, by so many users in a minute. */
static struct recent *recent_find(struct warnings *warnings, enum warning_kind kind,
				  uid_t uid, int64_t now_ms)
{
	struct recent *found = NULL;

	for (unsigned int i = 0; i < RECENT_MAX; i++) {
		struct recent *recent = &warnings->recent[i];

		if (recent->until_ms && recent->kind == kind && recent->uid == uid)
			return recent;
		if (!found && recent_is_over(recent, now_ms))
			found = recent;
	}
	if (found)
		*found = (struct recent){ .kind = kind, .uid = uid };
	return found;
}

static void warning_push(struct warnings *warnings, const struct warning *warning)
{
	warnings->queue[(warnings->first + warnings->n++) % QUEUE_MAX] = *warning;
	pthread_cond_signal(&warnings->change);
}

/* Counts the warning in its window. Returns: whether it is said. */
static bool warning_is_said(struct warnings *warnings, const struct warning *warning)
{
	int64_t now_ms = clock_ms();
	struct recent *recent =
		recent_find(warnings, warning->kind, warning->uid, now_ms);

	if (!recent)
		return false;
	if (recent->until_ms <= now_ms && !n_left_out(recent)) {
		recent->until_ms = now_ms + WARNINGS_WINDOW_MS;
		recent->n = 0;
	}
	if (++recent->n <= WARNINGS_IN_WINDOW && warnings->n < QUEUE_MAX)
		return true;
	recent->n = MAX(recent->n, WARNINGS_IN_WINDOW + 1u);
	recent->last = *warning;
	pthread_cond_signal(&warnings->change);
	return false;
}

void warnings_add(struct warnings *warnings, enum warning_kind kind, uid_t uid,
		  const char *object, const char *format, ...)
{
	_cleanup_text_ struct text printable = TEXT_INIT;
	struct warning warning = { .kind = kind, .uid = uid };
	char sentence[sizeof(warning.sentence)];
	va_list args;

	if (!warnings)
		return;
	va_start(args, format);
	(void)vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	text_add_printable(&printable, sentence);
	snprintf(warning.sentence, sizeof(warning.sentence), "%s",
		 text_string(&printable));
	snprintf(warning.object, sizeof(warning.object), "%s", object);
	pthread_mutex_lock(&warnings->lock);
	if (warning_is_said(warnings, &warning))
		warning_push(warnings, &warning);
	pthread_mutex_unlock(&warnings->lock);
}

/* Queues how many were left out in windows that are over. Returns: when to look again. */
static int64_t tell_left_out(struct warnings *warnings)
{
	int64_t now_ms = clock_ms(), next_ms = now_ms + WARNINGS_WINDOW_MS;

	for (unsigned int i = 0; i < RECENT_MAX && warnings->n < QUEUE_MAX; i++) {
		struct recent *recent = &warnings->recent[i];
		unsigned int n = n_left_out(recent);
		struct warning warning;

		if (!n)
			continue;
		if (recent->until_ms > now_ms && !warnings->ended) {
			next_ms = MIN(next_ms, recent->until_ms);
			continue;
		}
		warning = recent->last;
		snprintf(warning.sentence, sizeof(warning.sentence),
			 "%u more such of uid %u; the last: %.*s", n, recent->uid,
			 (int)sizeof(warning.sentence) - 64, recent->last.sentence);
		recent->until_ms = 0;
		warning_push(warnings, &warning);
	}
	return next_ms;
}

bool warnings_take(struct warnings *warnings, struct warning *ret_warning)
{
	int64_t next_ms;
	bool found;

	pthread_mutex_lock(&warnings->lock);
	next_ms = tell_left_out(warnings);
	while (!warnings->n && !warnings->ended) {
		(void)clock_cond_wait(&warnings->change, &warnings->lock, next_ms);
		next_ms = tell_left_out(warnings);
	}
	found = warnings->n;
	if (found) {
		*ret_warning = warnings->queue[warnings->first];
		warnings->first = (warnings->first + 1) % QUEUE_MAX;
		warnings->n--;
	}
	pthread_mutex_unlock(&warnings->lock);
	return found;
}

void warnings_end(struct warnings *warnings)
{
	pthread_mutex_lock(&warnings->lock);
	warnings->ended = true;
	pthread_cond_broadcast(&warnings->change);
	pthread_mutex_unlock(&warnings->lock);
}

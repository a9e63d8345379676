/* SPDX-License-Identifier: MIT */
/*
 * What happened: failures, kept by user, and changes, one ring for all with readers that
 * follow it.
 *
 * A failure is a line `TIME pid=N FILE ERRNO sentence`; each user has his last 64, so
 * that nobody pushes out another's. A change is a line `TIME SEQ EVENT OBJECT
 * [KEY=VALUE]...`. The journal has a lock of its own, innermost; wake functions are
 * called with it.
 */
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include "base/text.h"
#include "model/event_reader.h"

#define FAILURES_KEPT  64
#define EVENTS_KEPT    1024
#define EVENT_LINE_MAX 512

struct failures {
	uid_t uid;
	uint64_t n; /* ever */
	struct {
		uint64_t seq;
		char *line;
	} ring[FAILURES_KEPT];
	struct failures *next;
};

struct journal {
	pthread_mutex_t lock;
	struct failures *failures; /* one for each user who ever failed */
	uint64_t n_failures;
	uint64_t n_events;
	char *events[EVENTS_KEPT];
	struct event_reader *readers;
};

void journal_init(struct journal *journal);
void journal_deinit(struct journal *journal);

/* error is a positive errno. What can't be printed in the sentence is shown as \xHH. */
void journal_fail(struct journal *journal, uid_t uid, pid_t pid, const char *file,
		  int error, const char *sentence);

/* The failures of a user, of all users when uid is 0; oldest first. */
void journal_failures(struct journal *journal, uid_t uid, struct text *text);
uint64_t journal_n_failures(struct journal *journal);

/* what: `EVENT OBJECT [KEY=VALUE]...` */
void journal_event(struct journal *journal, const char *format, ...) _printf_(2, 3);
void journal_events(struct journal *journal, struct text *text);

struct event_reader *journal_reader_new(struct journal *journal,
					void (*wake)(void *userdata), void *userdata);

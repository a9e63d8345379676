/* SPDX-License-Identifier: MIT */
/*
 * The journal: failures by user, and one ring of events for all readers.
 *
 * A failure is a line `TIME pid=N FILE ERRNO sentence`. Each user has a ring of 64
 * failures, so no user can push out the failures of another. An event is a line `TIME SEQ
 * EVENT OBJECT [KEY=VALUE]...`. The journal has a lock of its own, which is innermost.
 * Wake functions are called under this lock.
 *
 * With records (record/records.h) both outlive the broker: events lie in the records, of
 * failures there is a copy. The lock of the records is taken before the journal's.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/def.h"

struct caller;
struct event_record;
struct records;
struct text;

#define FAILURES_KEPT	   64
#define FAILURE_USERS_KEPT 4096 /* users with failures */
#define EVENTS_KEPT	   1024
#define EVENT_LINE_MAX	   512

struct failure {
	uint64_t seq;
	char *line;
	uint32_t record; /* 0: none */
};

struct failures {
	uid_t uid;
	uint64_t n; /* failures so far */
	struct failure ring[FAILURES_KEPT];
	struct failures *next;
};

struct journal {
	pthread_mutex_t lock;
	struct failures *failures; /* an entry for each user with a failure */
	unsigned int n_users;	   /* in failures */
	uint64_t n_failures;
	uint64_t n_events;
	struct event_record *events[EVENTS_KEPT]; /* NULL: none yet */
	struct records *records;		  /* has them all; NULL: none are kept */
	struct event_reader *waiting; /* for the next line */
	struct warnings *warnings; /* NULL: nobody wants them; set at the start */
};

void journal_init(struct journal *journal);
void journal_deinit(struct journal *journal);

/*
 * Takes what the last broker left, and saves all that follows. Nothing is in the journal
 * yet. Returns: 0; -ENOMEM.
 */
int journal_keep_records(struct journal *journal, struct records *records);

/* error is a positive errno. Unprintable bytes of the sentence are shown as \xHH. A share
 * or limit that is used up is a warning, too. */
void journal_fail(struct journal *journal, uid_t uid, pid_t pid, const char *file,
		  int error, const char *sentence);

/* The failures of a user, oldest first; with uid 0 the failures of all users, with
 * `uid=N` behind the time. */
void journal_failures(struct journal *journal, uid_t uid, struct text *text);
uint64_t journal_n_failures(struct journal *journal);

/* The format gives `EVENT OBJECT [KEY=VALUE]...`. */
void journal_event(struct journal *journal, const char *format, ...) _printf_(2, 3);
/* The same, of what a user did: `uid=N pid=N` follow. by NULL: the broker did it. */
void journal_event_by(struct journal *journal, const struct caller *by,
		      const char *format, ...) _printf_(3, 4);
void journal_events(struct journal *journal, struct text *text);

struct event_reader *journal_reader_new(struct journal *journal,
					void (*wake)(void *userdata), void *userdata);

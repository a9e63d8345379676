/* SPDX-License-Identifier: MIT */
#include "model/journal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

#include "base/text.h"
#include "base/warning.h"
#include "model/access.h"
#include "model/event_reader.h"
#include "record/records.h"
#include "record/texts.h"

_Static_assert(EVENTS_KEPT == RECORD_EVENTS && EVENT_LINE_MAX == RECORD_EVENT_BYTES,
	       "events are kept in their records");

struct event_reader {
	struct journal *journal;
	uint64_t next; /* number of the event to take next */
	void (*wake)(void *userdata);
	void *userdata;
	bool behind; /* there are lines to take; journal.lock */
	struct event_reader *prev_reader, *next_reader;
};

void journal_init(struct journal *journal)
{
	*journal = (struct journal){ 0 };
	pthread_mutex_init(&journal->lock, NULL);
}

/* The record is dropped by those who forget a failure, not at the end of the broker. */
static void failures_free(struct failures *failures)
{
	for (int i = 0; i < FAILURES_KEPT; i++)
		free(failures->ring[i].line);
	free(failures);
}

void journal_deinit(struct journal *journal)
{
	struct failures *failures, *safe;

	LL_FOREACH_SAFE(journal->failures, failures, safe)
	failures_free(failures);
	for (int i = 0; i < EVENTS_KEPT && !journal->records; i++)
		free(journal->events[i]);
	pthread_mutex_destroy(&journal->lock);
}

/* ---- failures ---- */

static void failure_drop(const struct journal *journal, uint32_t index)
{
	const struct failure_record *record =
		records_get(journal->records, RECORD_FAILURE, index);

	if (!record)
		return;
	record_text_drop(journal->records, record->text);
	records_drop(journal->records, RECORD_FAILURE, index);
}

/* Returns: the index of the record; 0: no memory, or no records are kept. */
static uint32_t failure_save(const struct journal *journal, uid_t uid,
			     const struct text *line)
{
	struct failure_record record = { .number = journal->n_failures, .uid = uid };
	uint32_t index = records_add(journal->records, RECORD_FAILURE);

	if (index)
		record.text = record_text_add(journal->records, line->data, line->length);
	if (record.text)
		records_save(journal->records, RECORD_FAILURE, index, &record);
	else if (index)
		records_drop(journal->records, RECORD_FAILURE, index);
	return record.text ? index : 0;
}

/* Too many users have failed: forgets the user whose last failure is oldest. */
static void failures_forget(struct journal *journal)
{
	struct failures *last = journal->failures;

	while (last->next)
		last = last->next;
	LL_DELETE(journal->failures, last);
	journal->n_users--;
	for (int i = 0; i < FAILURES_KEPT; i++)
		failure_drop(journal, last->ring[i].record);
	failures_free(last);
}

/* Returns: the user's failures, moved to the front of the list; NULL: no memory. */
static struct failures *failures_of(struct journal *journal, uid_t uid)
{
	struct failures *failures;

	LL_SEARCH_SCALAR(journal->failures, failures, uid, uid);
	if (failures) {
		LL_DELETE(journal->failures, failures);
		LL_PREPEND(journal->failures, failures);
		return failures;
	}
	failures = calloc(1, sizeof(*failures));
	if (!failures)
		return NULL;
	if (journal->n_users == FAILURE_USERS_KEPT)
		failures_forget(journal);
	failures->uid = uid;
	LL_PREPEND(journal->failures, failures);
	journal->n_users++;
	return failures;
}

/* Where the next failure goes. */
static struct failure *failure_next(struct failures *failures)
{
	return &failures->ring[failures->n % FAILURES_KEPT];
}

/* The line becomes the journal's. */
static void failure_add(struct failures *failures, uint64_t seq, uint32_t record,
			char *line)
{
	struct failure *place = failure_next(failures);

	failures->n++;
	free(place->line);
	*place = (struct failure){ seq, line, record };
}

static bool is_limit(int error)
{
	return error == EDQUOT || error == EMFILE || error == ENFILE;
}

void journal_fail(struct journal *journal, uid_t uid, pid_t pid, const char *file,
		  int error, const char *sentence)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	struct failures *failures;
	const char *name = strerrorname_np(error);

	text_time(&text, time(NULL));
	text_printf(&text, " pid=%d ", (int)pid);
	text_add_word(&text, file);
	text_printf(&text, " %s ", name ? name : "?");
	text_add_printable(&text, sentence);
	text_add(&text, "\n", 1);
	if (text_failed(&text))
		return;
	if (is_limit(error))
		warnings_add(journal->warnings, WARNING_LIMIT, uid, file, "%s: %s", file,
			     sentence);

	records_begin(journal->records);
	pthread_mutex_lock(&journal->lock);
	journal->n_failures++;
	failures = failures_of(journal, uid);
	if (failures) {
		uint32_t record = failure_save(journal, uid, &text);

		failure_drop(journal, failure_next(failures)->record);
		failure_add(failures, journal->n_failures, record, take_ptr(text.data));
	}
	/* Before anybody can read it. */
	records_end(journal->records);
	pthread_mutex_unlock(&journal->lock);
}

static void failures_show(const struct failures *failures, struct text *text)
{
	uint64_t first = failures->n > FAILURES_KEPT ? failures->n - FAILURES_KEPT : 0;

	for (uint64_t i = first; i < failures->n; i++) {
		const char *line = failures->ring[i % FAILURES_KEPT].line;

		text_add(text, line, strlen(line));
	}
}

struct failure_line {
	uint64_t seq;
	uid_t uid;
	const char *line;
};

static int failure_line_compare(const void *a, const void *b)
{
	const struct failure_line *one = a, *other = b;

	return one->seq < other->seq ? -1 : one->seq > other->seq;
}

/* The failures of all users, in the order in which they happened. */
static void failures_show_all(struct journal *journal, struct text *text)
{
	_cleanup_free_ struct failure_line *lines = NULL;
	struct failures *failures;
	size_t n = 0, n_users;

	LL_COUNT(journal->failures, failures, n_users);
	lines = calloc(n_users * FAILURES_KEPT + 1, sizeof(*lines));
	if (!lines) {
		text->failed = true;
		return;
	}
	LL_FOREACH (journal->failures, failures) {
		for (int i = 0; i < FAILURES_KEPT && failures->ring[i].line; i++)
			lines[n++] = (struct failure_line){ failures->ring[i].seq,
							    failures->uid,
							    failures->ring[i].line };
	}
	qsort(lines, n, sizeof(*lines), failure_line_compare);
	for (size_t i = 0; i < n; i++) {
		size_t time = strcspn(lines[i].line, " ");

		text_printf(text, "%.*s uid=%u%s", (int)time, lines[i].line, lines[i].uid,
			    lines[i].line + time);
	}
}

void journal_failures(struct journal *journal, uid_t uid, struct text *text)
{
	struct failures *failures;

	pthread_mutex_lock(&journal->lock);
	if (uid == 0) {
		failures_show_all(journal, text);
	} else {
		LL_FOREACH (journal->failures, failures) {
			if (failures->uid == uid)
				failures_show(failures, text);
		}
	}
	pthread_mutex_unlock(&journal->lock);
}

uint64_t journal_n_failures(struct journal *journal)
{
	uint64_t n;

	pthread_mutex_lock(&journal->lock);
	n = journal->n_failures;
	pthread_mutex_unlock(&journal->lock);
	return n;
}

/* ---- events ---- */

/* Where an event is, or would be. */
static struct event_record **event_place(struct journal *journal, uint64_t number)
{
	return &journal->events[(number - 1) % EVENTS_KEPT];
}

/* NULL: none has this number, or the last broker died in it. */
static const struct event_record *event_at(struct journal *journal, uint64_t number)
{
	const struct event_record *event = *event_place(journal, number);

	return event && event->number == number ? event : NULL;
}

/* Under journal.lock. */
static void reader_move(struct event_reader *reader, bool behind)
{
	struct journal *journal = reader->journal;

	if (reader->behind == behind)
		return;
	if (behind)
		DL_DELETE2(journal->waiting, reader, prev_reader, next_reader);
	else
		DL_APPEND2(journal->waiting, reader, prev_reader, next_reader);
	reader->behind = behind;
}

/*
 * Adds the line, and wakes the readers that wait. A reader with lines to take has been
 * woken before, so thousands of readers that read nothing cost nothing.
 */
static void event_add(struct journal *journal, const char *what)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	struct event_record **place;
	struct event_reader *reader;
	uint64_t number;

	pthread_mutex_lock(&journal->lock);
	number = journal->n_events + 1;
	text_time(&text, time(NULL));
	text_printf(&text, " %llu %s\n", (unsigned long long)number, what);
	place = event_place(journal, number);
	if (!*place)
		*place = calloc(1, sizeof(**place));
	if (*place && !text_failed(&text)) {
		records_put_event(*place, number, text.data, text.length);
		journal->n_events = number;
		/* Readers only set a flag: see event_reader_new(). */
		while ((reader = journal->waiting)) {
			reader_move(reader, true);
			reader->wake(reader->userdata);
		}
	}
	pthread_mutex_unlock(&journal->lock);
}

void journal_event(struct journal *journal, const char *format, ...)
{
	char what[EVENT_LINE_MAX - 64];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	event_add(journal, what);
}

void journal_event_by(struct journal *journal, const struct caller *by,
		      const char *format, ...)
{
	char what[EVENT_LINE_MAX - 64], who[48] = "";
	size_t length;
	va_list args;

	if (by)
		snprintf(who, sizeof(who), " uid=%u pid=%d", by->uid, by->pid);
	va_start(args, format);
	(void)vsnprintf(what, sizeof(what) - sizeof(who), format, args);
	va_end(args);
	length = strlen(what);
	snprintf(what + length, sizeof(what) - length, "%s", who);
	event_add(journal, what);
}

void journal_events(struct journal *journal, struct text *text)
{
	uint64_t first;

	pthread_mutex_lock(&journal->lock);
	first = journal->n_events > EVENTS_KEPT ? journal->n_events - EVENTS_KEPT : 0;
	for (uint64_t i = first; i < journal->n_events; i++) {
		const struct event_record *event = event_at(journal, i + 1);

		if (event)
			text_add(text, event->line, event->length);
	}
	pthread_mutex_unlock(&journal->lock);
}

struct event_reader *journal_reader_new(struct journal *journal,
					void (*wake)(void *userdata), void *userdata)
{
	struct event_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return NULL;
	reader->journal = journal;
	reader->wake = wake;
	reader->userdata = userdata;
	pthread_mutex_lock(&journal->lock);
	reader->next = journal->n_events;
	DL_APPEND2(journal->waiting, reader, prev_reader, next_reader);
	pthread_mutex_unlock(&journal->lock);
	return reader;
}

struct event_reader *event_reader_free(struct event_reader *reader)
{
	if (!reader)
		return NULL;
	pthread_mutex_lock(&reader->journal->lock);
	reader_move(reader, true);
	pthread_mutex_unlock(&reader->journal->lock);
	free(reader);
	return NULL;
}

size_t event_reader_take(struct event_reader *reader, char *bytes, size_t size)
{
	struct journal *journal = reader->journal;
	size_t length = 0;

	pthread_mutex_lock(&journal->lock);
	if (journal->n_events - reader->next > EVENTS_KEPT) {
		uint64_t lost = journal->n_events - EVENTS_KEPT - reader->next;

		length = (size_t)snprintf(bytes, size, "lost %llu\n",
					  (unsigned long long)lost);
		reader->next += lost;
	}
	while (reader->next < journal->n_events) {
		const struct event_record *event = event_at(journal, reader->next + 1);

		if (event && length + event->length > size)
			break;
		if (event)
			memcpy(bytes + length, event->line, event->length);
		length += event ? event->length : 0;
		reader->next++;
	}
	reader_move(reader, reader->next < journal->n_events);
	pthread_mutex_unlock(&journal->lock);
	return length;
}

/* ---- of the last broker ---- */

static int keep_events(struct journal *journal)
{
	struct event_record none = { 0 };
	uint32_t index;

	/* All places, so that an event takes no other lock. */
	while ((index = records_add(journal->records, RECORD_EVENT)))
		records_save(journal->records, RECORD_EVENT, index, &none);
	for (uint32_t i = 0; i < EVENTS_KEPT; i++) {
		struct event_record *event =
			records_place(journal->records, RECORD_EVENT, i + 1);

		if (!event)
			return -ENOMEM;
		journal->events[i] = event;
		journal->n_events = MAX(journal->n_events, event->number);
	}
	return 0;
}

struct left {
	const struct failure_record *record;
	uint32_t index;
};

static int left_compare(const void *a, const void *b)
{
	const struct left *one = a, *other = b;

	return one->record->number < other->record->number ? -1 : 1;
}

static int keep_failure(struct journal *journal, const struct left *left)
{
	struct failures *failures = failures_of(journal, left->record->uid);
	_cleanup_text_ struct text line = TEXT_INIT;

	record_text_show(journal->records, left->record->text, &line);
	if (!failures || text_failed(&line))
		return -ENOMEM;
	journal->n_failures = left->record->number;
	failure_drop(journal, failure_next(failures)->record);
	failure_add(failures, journal->n_failures, left->index, take_ptr(line.data));
	return 0;
}

static int keep_failures(struct journal *journal)
{
	_cleanup_free_ struct left *left = NULL;
	const struct failure_record *record;
	size_t n = 0;
	int r = 0;

	for (uint32_t i = 1; records_next(journal->records, RECORD_FAILURE, &i); i++)
		n++;
	left = calloc(n + 1, sizeof(*left));
	if (!left)
		return -ENOMEM;
	n = 0;
	for (uint32_t i = 1;
	     (record = records_next(journal->records, RECORD_FAILURE, &i)); i++)
		left[n++] = (struct left){ record, i };
	qsort(left, n, sizeof(*left), left_compare);
	for (size_t i = 0; i < n && r == 0; i++)
		r = keep_failure(journal, &left[i]);
	return r;
}

int journal_keep_records(struct journal *journal, struct records *records)
{
	int r;

	journal->records = records;
	r = keep_events(journal);
	return r < 0 ? r : keep_failures(journal);
}

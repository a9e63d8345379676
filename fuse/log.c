/* SPDX-License-Identifier: MIT */
#include "log.h"

#include "base/clock.h"
#include "base/text.h"
#include "base/warning.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <syslog.h>
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>
#include <unistd.h>

#define STDERR_WAIT_MS 1000
#define END_WAIT_MS    2000

/* ---- where the words go ---- */

static bool in_journal; /* atomic */

/*
 * systemd.exec(5): $JOURNAL_STREAM has the device and inode of the journal's stream. A
 * program that was started with another stderr inherits the variable all the same.
 */
static bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat stat;
	int length = 0;

	return stream && sscanf(stream, "%llu:%llu%n", &device, &inode, &length) == 2 &&
	       !stream[length] && fstat(STDERR_FILENO, &stat) == 0 &&
	       stat.st_dev == device && stat.st_ino == inode;
}

void log_init(void)
{
	__atomic_store_n(&in_journal, stderr_is_journal(), __ATOMIC_RELAXED);
}

void log_leave_terminal(void)
{
	__atomic_store_n(&in_journal, true, __ATOMIC_RELAXED);
}

/* A line behind a dropped one does not wait for the same reader again. */
static bool stderr_has_room(void)
{
	static bool is_full; /* atomic */
	struct pollfd ready = { .fd = STDERR_FILENO, .events = POLLOUT };
	const int wait_ms =
		__atomic_load_n(&is_full, __ATOMIC_RELAXED) ? 0 : STDERR_WAIT_MS;
	const bool has_room = poll(&ready, 1, wait_ms) == 1;

	__atomic_store_n(&is_full, !has_room, __ATOMIC_RELAXED);
	return has_room;
}

/*
 * One write(2), so that lines of several programs don't mix. A pipe with any room takes
 * PIPE_BUF bytes at once, and may keep the writer of more.
 */
static void write_stderr(const char *line, size_t length)
{
	size_t n;

	for (; length > 0; line += n, length -= n) {
		n = MIN(length, (size_t)PIPE_BUF);
		if (!stderr_has_room() || write(STDERR_FILENO, line, n) != (ssize_t)n)
			return;
	}
}

static void write_words(const char *words)
{
	_cleanup_text_ struct text line = TEXT_INIT;

	text_printf(&line, "gpumemd: %s\n", words);
	write_stderr(text_string(&line), line.length);
}

/* ---- messages ---- */

static void print_field(struct text *field, const char *key, const char *value)
{
	text_printf(field, "%s=%s", key, value);
}

static void send_journal(const struct warning *warning)
{
	const struct warning_class *class = &warning_classes[warning->kind];
	enum { MESSAGE, PRIORITY, ID, UID, OBJECT, IDENTIFIER, N_FIELDS };
	struct text fields[N_FIELDS] = { 0 };
	struct iovec vectors[N_FIELDS];

	print_field(&fields[MESSAGE], "MESSAGE", warning->sentence);
	text_printf(&fields[PRIORITY], "PRIORITY=%d", class->priority);
	print_field(&fields[ID], "MESSAGE_ID", class->id);
	text_printf(&fields[UID], "GPUMEM_UID=%u", warning->uid);
	print_field(&fields[OBJECT], "GPUMEM_OBJECT", warning->object);
	print_field(&fields[IDENTIFIER], "SYSLOG_IDENTIFIER", "gpumemd");
	for (unsigned int i = 0; i < N_FIELDS; i++)
		vectors[i] = (struct iovec){ (char *)text_string(&fields[i]),
					     fields[i].length };
	(void)sd_journal_sendv(vectors, N_FIELDS);
	for (unsigned int i = 0; i < N_FIELDS; i++)
		text_deinit(&fields[i]);
}

static void say(const struct warning *warning)
{
	int priority = warning_classes[warning->kind].priority;
	_cleanup_text_ struct text line = TEXT_INIT;

	if (__atomic_load_n(&in_journal, __ATOMIC_RELAXED)) {
		send_journal(warning);
		return;
	}
	text_printf(&line, "gpumemd: %s: %s\n",
		    priority == LOG_WARNING ? "warning" : "error", warning->sentence);
	write_stderr(text_string(&line), line.length);
}

int log_complain(const char *format, ...)
{
	struct warning warning = { .kind = WARNING_BROKER, .uid = getuid() };
	_cleanup_free_ char *whole = NULL;
	va_list args, again;

	va_start(args, format);
	va_copy(again, args);
	(void)vsnprintf(warning.sentence, sizeof(warning.sentence), format, again);
	va_end(again);
	if (vasprintf(&whole, format, args) < 0)
		whole = NULL;
	if (__atomic_load_n(&in_journal, __ATOMIC_RELAXED))
		send_journal(&warning);
	else
		write_words(whole ?: warning.sentence);
	va_end(args);
	return EXIT_FAILURE;
}

void log_note(const char *sentence)
{
	if (__atomic_load_n(&in_journal, __ATOMIC_RELAXED))
		sd_journal_send("MESSAGE=%s", sentence, "PRIORITY=%d", LOG_NOTICE,
				"SYSLOG_IDENTIFIER=gpumemd", NULL);
	else
		write_words(sentence);
}

/* ---- the thread ---- */

struct log {
	struct warnings *warnings;
	pthread_t thread;
	pthread_mutex_t lock; /* for the next two */
	pthread_cond_t change;
	bool over; /* the thread has said all */
};

static void *log_run(void *userdata)
{
	struct log *log = userdata;
	struct warning warning;

	while (warnings_take(log->warnings, &warning))
		say(&warning);
	pthread_mutex_lock(&log->lock);
	log->over = true;
	pthread_cond_signal(&log->change);
	pthread_mutex_unlock(&log->lock);
	return NULL;
}

struct log *log_new(void)
{
	struct log *log = calloc(1, sizeof(*log));

	if (!log)
		return NULL;
	pthread_mutex_init(&log->lock, NULL);
	clock_cond_init(&log->change);
	log->warnings = warnings_new();
	if (log->warnings && pthread_create(&log->thread, NULL, log_run, log) == 0)
		return log;
	log->warnings = warnings_free(log->warnings);
	free(log);
	return NULL;
}

struct warnings *log_warnings(struct log *log)
{
	return log->warnings;
}

static bool log_is_over(struct log *log)
{
	int64_t until = clock_ms() + END_WAIT_MS;
	bool over;

	pthread_mutex_lock(&log->lock);
	while (!log->over && clock_cond_wait(&log->change, &log->lock, until) == 0)
		;
	over = log->over;
	pthread_mutex_unlock(&log->lock);
	return over;
}

struct log *log_free(struct log *log)
{
	if (!log)
		return NULL;
	warnings_end(log->warnings);
	/* A thread that hangs in the journal keeps both until the process ends. */
	if (!log_is_over(log))
		return NULL;
	pthread_join(log->thread, NULL);
	warnings_free(log->warnings);
	pthread_cond_destroy(&log->change);
	pthread_mutex_destroy(&log->lock);
	free(log);
	return NULL;
}

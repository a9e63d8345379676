/* SPDX-License-Identifier: MIT */
#include "progress.h"

#include "stop.h"
#include "table.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#define CHUNK	    ((size_t)8 << 20)
#define SHOW_NS	    100000000
#define BAR_COLUMNS 52 /* beside the name and the bar */
#define NS	    1000000000.0

/* ---- the bar ---- */

struct progress {
	const struct transfer *transfer;
	bool terminal;
	uint64_t begun, shown; /* CLOCK_MONOTONIC, in nanoseconds */
};

static int terminal_columns(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || !size.ws_col)
		return 80;
	return size.ws_col;
}

static void progress_draw(const struct progress *progress, uint64_t done)
{
	char done_text[64], size_text_[64], rate_text[64], left[32] = "", bar[64];
	const struct transfer *transfer = progress->transfer;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	double seconds = MAX((now - progress->begun) / NS, 1e-6);
	double rate = (double)done / seconds;
	int columns = terminal_columns();
	int room = columns - 1 - BAR_COLUMNS - (int)strlen(transfer->name) - 3;
	size_t width = room > 60 ? 40 : room > 10 ? (size_t)room : 0;
	size_t filled = (size_t)((double)width * (double)done / (double)transfer->size);

	memset(bar, '-', sizeof bar);
	memset(bar, '#', filled);
	bar[width] = '\0';
	if (done < transfer->size && rate > 0)
		snprintf(left, sizeof left, "%.0f s left",
			 (double)(transfer->size - done) / rate);
	else
		snprintf(left, sizeof left, "%.1f s", seconds);
	fprintf(stderr, "\r%.*s %s%s%s%s of %s  %s/s  %s\033[K", columns / 4,
		transfer->name, width ? "[" : "", bar, width ? "] " : "",
		size_people(done_text, done), size_people(size_text_, transfer->size),
		size_people(rate_text, (uint64_t)rate), left);
	fflush(stderr);
}

static void progress_show(struct progress *progress, uint64_t done)
{
	uint64_t now;

	if (!progress->terminal)
		return;
	now = clock_ns(CLOCK_MONOTONIC);
	if (now - progress->shown < SHOW_NS)
		return;
	progress->shown = now;
	progress_draw(progress, done);
}

static void progress_end(const struct progress *progress, uint64_t done)
{
	if (!progress->terminal)
		return;
	progress_draw(progress, done);
	fputc('\n', stderr);
}

/* ---- the bytes ---- */

/* Reads a piece. Returns: bytes, 0 at the end; -EINTR; -errno with a sentence. */
static ssize_t piece_read(const struct transfer *transfer, char *bytes, size_t size,
			  struct text *why)
{
	ssize_t got = unless_stopped(read(transfer->from, bytes, size));

	if (got >= 0)
		return got;
	if (errno != EINTR)
		text_printf(why, "%s: %m", transfer->from_name);
	return -errno;
}

static int piece_write(const struct transfer *transfer, const char *bytes, size_t size,
		       struct text *why)
{
	while (size) {
		ssize_t written = unless_stopped(write(transfer->to, bytes, size));

		if (stop_asked())
			return -EINTR;
		if (written < 0) {
			text_printf(why, "%s: %m", transfer->to_name);
			return -errno;
		}
		bytes += written;
		size -= (size_t)written;
	}
	return 0;
}

static int transfer_all(const struct transfer *transfer, struct progress *progress,
			char *bytes, uint64_t *done, struct text *why)
{
	while (*done < transfer->size) {
		size_t size = MIN(CHUNK, transfer->size - *done);
		ssize_t got = piece_read(transfer, bytes, size, why);
		int r;

		if (stop_asked())
			return -EINTR;
		if (got < 0)
			return (int)got;
		if (got == 0) {
			text_printf(why, "%s: it ended after %llu of %llu bytes",
				    transfer->from_name, (unsigned long long)*done,
				    (unsigned long long)transfer->size);
			return -EIO;
		}
		r = piece_write(transfer, bytes, (size_t)got, why);
		if (r)
			return r;
		*done += (uint64_t)got;
		progress_show(progress, *done);
	}
	return 0;
}

int transfer_run(const struct transfer *transfer, struct text *why)
{
	_cleanup_free_ char *bytes = malloc(CHUNK);
	struct progress progress = { transfer, isatty(STDERR_FILENO),
				     clock_ns(CLOCK_MONOTONIC), 0 };
	uint64_t done = 0;

	if (!bytes) {
		text_printf(why, "no memory");
		return -ENOMEM;
	}
	int r = transfer_all(transfer, &progress, bytes, &done, why);
	progress_end(&progress, done);
	return r;
}

/* SPDX-License-Identifier: MIT */
/*
 * Warnings: what an administrator should know of without looking. Whoever finds one adds
 * it here, under any lock and without waiting; a thread of the program that runs the
 * broker takes the warnings and writes them to stderr or the system's journal.
 *
 * One table has the kinds. Of a kind and a user WARNINGS_IN_WINDOW are kept within
 * WARNINGS_WINDOW_MS, and what comes beyond is counted: a user who runs into a limit a
 * million times fills nobody's journal. The lock is innermost.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/def.h"

#define WARNINGS_IN_WINDOW 5
#define WARNINGS_WINDOW_MS 60000

enum warning_kind {
	WARNING_WORKER_ENDED,
	WARNING_WORKER_FAILED,
	WARNING_MOVER_ENDED,
	WARNING_MEMORY_LOST,
	WARNING_LIMIT,
	WARNING_DEVICE,
	WARNING_BROKER,
	N_WARNING_KINDS,
};

/* A kind as the system's journal and its catalog have it. */
struct warning_class {
	const char *id; /* MESSAGE_ID: never changes */
	int priority;	/* of syslog(3) */
	const char *subject;
	const char *help; /* what it means, and what to do */
};

extern const struct warning_class warning_classes[N_WARNING_KINDS];

struct warning {
	enum warning_kind kind;
	uid_t uid;	    /* whom it concerns */
	char object[128];   /* path in the mount, such as owners/1001/worker */
	char sentence[512]; /* printable */
};

struct warnings;

/* NULL: no memory. */
struct warnings *warnings_new(void);
struct warnings *warnings_free(struct warnings *warnings);

/* Unprintable bytes are shown as \xHH. warnings NULL: nobody wants them. */
void warnings_add(struct warnings *warnings, enum warning_kind kind, uid_t uid,
		  const char *object, const char *format, ...) _printf_(5, 6);

/* Waits for the next warning. Returns: false after warnings_end(), when all are taken. */
bool warnings_take(struct warnings *warnings, struct warning *ret_warning);

/* No more warnings come: those left out so far are told at once. */
void warnings_end(struct warnings *warnings);

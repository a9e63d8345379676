/* SPDX-License-Identifier: MIT */
/*
 * A broker for tests: the real one, on a software machine of the test's own, asked and
 * waited for in one line each.
 */
#pragma once

#include <pthread.h>

#include "api/control_file.h"
#include "process/broker.h"
#include "process/processes.h"

/* A wait and its answer. */
struct answer {
	struct completion wait;
	pthread_mutex_t lock;
	pthread_cond_t change;
	unsigned int n; /* how often it was answered */
	int error;
	size_t length;
	char bytes[4096]; /* the first of the data */
};

/* Gets an answer ready; its wait can be given away. */
struct completion *answer_expect(struct answer *answer);
/* Waits for the answer. Returns: its error. */
int answer_get(struct answer *answer);

/* Starts a broker on a machine of so much memory, with more options of the software GPU.
 */
struct broker *broker_start(const char *memory, const char *options);
/* Ends it. All counters must be zero. */
void broker_end(struct broker *broker);

extern const struct caller nobody_special; /* uid 1000 */

struct control *control_open(struct broker *broker, const char *verb);
/* Writes a batch and waits. Returns: the error, or bytes taken. */
long control_say(struct control *control, const char *lines);
/* A line on a descriptor of its own. Returns: 0, or the error. */
int command_say(struct broker *broker, const char *verb, const char *format, ...)
	_printf_(3, 4);

/* Finds an allocation that is there. */
struct token allocation_named(struct broker *broker, const char *name);

/* Writes and reads bytes at an offset. Returns: the error, or how many. */
long data_write(struct broker *broker, struct token token, uint64_t offset,
		const void *bytes, size_t length);
long data_read(struct broker *broker, struct token token, uint64_t offset, void *bytes,
	       size_t length);

/* Device memory that the driver has free on all devices. */
uint64_t driver_free(struct broker *broker);

/* Waits until nothing is under way any more. */
void broker_settle(struct broker *broker);

/* Stops, continues or kills the mover, once it runs. */
void mover_signal(struct broker *broker, int signal);

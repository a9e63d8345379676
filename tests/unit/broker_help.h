/* SPDX-License-Identifier: MIT */
/*
 * The real broker for tests, on a separate software machine for each test. Each helper
 * does a request and its wait in a single call.
 */
#pragma once

#include <pthread.h>

#include "api/control_file.h"
#include "kernels/module_use.h"
#include "process/broker.h"
#include "process/processes.h"

/* A wait and its answer. */
struct answer {
	struct completion wait;
	pthread_mutex_t lock;
	pthread_cond_t change;
	unsigned int n; /* number of answers */
	int error;
	size_t length;
	char bytes[4096]; /* the first of the data */
};

/* Prepares an answer. Returns: its completion, to be given to the broker. */
struct completion *answer_expect(struct answer *answer);
/* Waits for the answer. Returns: its error. */
int answer_get(struct answer *answer);

/* Starts a broker on a machine of so much memory, with more options of the software GPU.
 */
struct broker *broker_start(const char *memory, const char *options);
/* Ends the broker. All counters must be zero. */
void broker_end(struct broker *broker);

extern const struct caller nobody_special; /* uid 1000 */

struct control *control_open(struct broker *broker, const char *verb);
/* Writes a batch and waits. Returns: the error, or bytes taken. */
long control_say(struct control *control, const char *lines);
/* Writes a line to a control file opened for this line. Returns: 0, or the error. */
int command_say(struct broker *broker, const char *verb, const char *format, ...)
	_printf_(3, 4);

/* Finds an object of the type for nobody_special. Returns: 0; -ENOENT, -EAGAIN. */
int object_find(struct broker *broker, enum object_type type, struct token in,
		const char *name, struct token *ret_token);

/* Makes a module or a stream for nobody_special, as mkdir. Returns: as broker_create().
 */
int object_make(struct broker *broker, enum object_type type, const char *name,
		struct token *ret_token);

/* module_use_end(), by itself. */
void module_use_over(struct broker *broker, struct module_use *use);

/* Finds an allocation; fails the test when there is none of that name. */
struct token allocation_named(struct broker *broker, const char *name);
/* The state of an allocation that is there. */
enum allocation_state allocation_state_of(struct broker *broker, const char *name);

/* Writes an image of text and closes the file. Returns: the error of the close. */
int image_write(struct broker *broker, struct token module, const char *text);

/* Writes and reads bytes at an offset. Returns: the error, or how many. */
long data_write(struct broker *broker, struct token token, uint64_t offset,
		const void *bytes, size_t length);
long data_read(struct broker *broker, struct token token, uint64_t offset, void *bytes,
	       size_t length);

/* The driver's free device memory, summed over all devices. */
uint64_t driver_free(struct broker *broker);

/* Waits until nothing is under way any more. */
void broker_settle(struct broker *broker);

/*
 * Holds up all closes of processes (LANE_CLOSES), as locks on a pidfd may. No case
 * waits for the broker meanwhile.
 */
void closers_hold(struct broker *broker);
void closers_let_go(void);

/* How many pidfds of this process are open in it. */
unsigned int n_own_pidfds(void);

/* Waits until the worker, or the mover, runs; then stops, continues or kills it. */
void worker_signal(struct worker *worker, int signal);
void mover_signal(struct broker *broker, int signal);

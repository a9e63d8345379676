/* SPDX-License-Identifier: MIT */
#include "api/control_file.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "api/line_times.h"
#include "base/clock.h"
#include "base/process.h"
#include "base/workqueue.h"
#include "control/command.h"
#include "control/line.h"
#include "memops/lifetime.h"
#include "model/registry.h"
#include "op/op.h"
#include "process/broker.h"
#include "process/user_lanes.h"

#define LINES_IN_TURN 32    /* lines of a batch that a thread runs before other work */
#define BLANK_IN_TURN 16384 /* bytes of blank lines that a thread passes over */
#define BLANK_LINE    64    /* that a blank line counts at least */
/* Answers up to this are as little as the descriptor itself, and are not charged. */
#define SMALL_ANSWERS 4096

struct control {
	struct broker *broker;
	const struct verb *verb;
	struct token token;
	struct caller caller;
	gid_t *groups; /* of caller; owned */
	pid_t foreign; /* the opener, as command.foreign */

	pthread_mutex_t lock; /* for all fields below; never held during a command */
	struct text answers;
	size_t read;	  /* bytes of answers already read */
	bool wants_state; /* no answers yet: ask for the object's state */
	char *tail;	  /* of the last write: a line cut by a full buffer */
	size_t n_tail;
	uint64_t charged; /* bytes of all that is kept that the opener is charged for */
	int owed;	  /* errno for the next write alone, after a short write */

	/*
	 * The last line that was started and failed, and the bytes behind the line. When
	 * a program retries the same bytes, the error is repeated and the line is not run
	 * twice.
	 */
	struct {
		size_t length;
		uint64_t hash;
		int error; /* 0: no such line */
	} refused;

	/* The batch under way. */
	bool busy;
	char *batch;		  /* tail and written bytes; owned */
	size_t n_batch, position; /* 0: there is none */
	size_t n_before;	  /* bytes of the batch from an earlier write */
	size_t line_start;
	bool many; /* lines */
	unsigned int line_number;
	bool whole; /* an unterminated last line is run too */
	bool any_answer;
	bool looping;	   /* a thread is in control_go() */
	bool line_pending; /* the started line is not done */
	uint64_t line_started_ns;
	int line_error;
	bool line_began;
	struct completion *wait; /* also tells whether a signal came */
	struct task rest;	 /* the workqueue goes on with the batch */

	/*
	 * The line under way. A signal may come between lines, too: then nobody holds its
	 * completion.
	 */
	struct command command;
};

static int control_charge(struct control *control);
static void control_go(struct control *control);
static void control_go_on(struct task *rest);
static void control_line_done(struct command *command, int error);

/*
 * The thread when it sees other files than the broker; else -1. Asked while the thread
 * waits for the open or the write: later its number may be another's, and close(2) may be
 * of any process that the descriptor was passed to.
 */
static pid_t control_foreign(const struct control *control, pid_t thread)
{
	if (!control->verb->opens_files || process_sees_our_files(thread))
		return -1;
	return thread;
}

int control_new(struct control **ret_control, struct broker *broker,
		const struct verb *verb, struct token token, const struct caller *caller)
{
	struct control *control = calloc(1, sizeof(*control));
	size_t n = caller->n_groups;
	int r;

	if (!control)
		return -ENOMEM;
	control->groups = calloc(n + 1, sizeof(gid_t));
	if (!control->groups) {
		free(control);
		return -ENOMEM;
	}
	if (n)
		memcpy(control->groups, caller->groups, n * sizeof(gid_t));
	control->broker = broker;
	control->verb = verb;
	control->token = token;
	control->caller = *caller;
	control->caller.groups = control->groups;
	control->command = (struct command){
		.broker = broker,
		.control = control,
		.verb = verb,
		.lane = N_USER_LANES,
		.caller = &control->caller,
		.token = token,
		.completion.done = command_completed,
		.done = control_line_done,
	};
	control->rest.run = control_go_on;
	control->foreign = control_foreign(control, caller->pid);
	control->command.foreign = control->foreign;
	pthread_mutex_init(&control->lock, NULL);
	control->wants_state = token.generation && verb->state;
	if (!control->wants_state)
		text_printf(&control->answers, "%s\n", verb_usage(verb, token));
	r = control_charge(control);
	if (r < 0) {
		control_free(control);
		return r;
	}
	*ret_control = control;
	return 0;
}

/*
 * Charges the opener for the answers, the tail, a long batch and a long list of groups,
 * in place of those charged before. Lock held, but at the descriptor's beginning and end.
 * Returns: 0; -ENOMEM, -EDQUOT (in the journal), never when there is less than before.
 */
static int control_charge(struct control *control)
{
	uint64_t groups = control->caller.n_groups * sizeof(gid_t);
	uint64_t length = control->answers.length, now = control->n_tail;
	struct registry *registry = control->broker->registry;
	_cleanup_text_ struct text file = TEXT_INIT;
	int r;

	/* In steps, to spare most lines of a batch the account. */
	if (length > SMALL_ANSWERS)
		now += (length + SMALL_ANSWERS - 1) / SMALL_ANSWERS * SMALL_ANSWERS;
	if (control->n_batch > SMALL_ANSWERS)
		now += control->n_batch;
	if (groups > SMALL_ANSWERS)
		now += groups;
	if (now == control->charged)
		return 0;
	pthread_mutex_lock(&registry->lock);
	command_file(&control->command, &file);
	pthread_mutex_unlock(&registry->lock);
	r = broker_text_charge(control->broker, &control->caller, text_string(&file),
			       control->charged, now);
	if (r == 0)
		control->charged = now;
	return r;
}

static void control_drop_answers(struct control *control)
{
	text_deinit(&control->answers);
	control->read = 0;
	(void)control_charge(control);
}

struct control *control_free(struct control *control)
{
	if (!control)
		return NULL;
	if (control->command.lifetime)
		lifetime_end(control->command.lifetime);
	command_forget_cgroup(&control->command);
	control->n_tail = 0;
	control->caller.n_groups = 0;
	control_drop_answers(control);
	free(control->tail);
	free(control->groups);
	pthread_mutex_destroy(&control->lock);
	free(control);
	return NULL;
}

bool control_wants_state(struct control *control)
{
	bool wants;

	pthread_mutex_lock(&control->lock);
	wants = control->wants_state;
	pthread_mutex_unlock(&control->lock);
	return wants;
}

void control_ask_state(struct control *control, struct completion *wait)
{
	control->verb->state(control->broker, control->token, &control->caller, wait);
}

int control_tell_state(struct control *control, const char *bytes, size_t length)
{
	int r = 0;

	pthread_mutex_lock(&control->lock);
	if (control->wants_state) {
		text_add(&control->answers, bytes, length);
		r = control_charge(control);
		control->wants_state = r < 0;
		if (r < 0)
			control_drop_answers(control);
	}
	pthread_mutex_unlock(&control->lock);
	return r;
}

size_t control_read(struct control *control, char *bytes, size_t size)
{
	size_t length;

	pthread_mutex_lock(&control->lock);
	length = MIN(size, control->answers.length - control->read);
	if (length)
		memcpy(bytes, control->answers.data + control->read, length);
	control->read += length;
	if (control->read == control->answers.length)
		control_drop_answers(control);
	pthread_mutex_unlock(&control->lock);
	return length;
}

/* ---- the end of a batch ---- */

/* Bytes of this write up to position, the count for write(2). */
static size_t control_taken(const struct control *control, size_t position)
{
	return position > control->n_before ? position - control->n_before : 0;
}

/* FNV-1a of words: there may be a MiB, and a thread of the view looks at them. */
static uint64_t refused_hash(const char *bytes, size_t length)
{
	uint64_t hash = text_hash(bytes, length % sizeof(uint64_t));

	bytes += length % sizeof(uint64_t);
	for (size_t i = 0; i < length / sizeof(uint64_t); i++) {
		uint64_t word;

		memcpy(&word, bytes + i * sizeof(word), sizeof(word));
		hash = (hash ^ word) * 0x100000001b3;
	}
	return hash;
}

static void control_remember(struct control *control, int error)
{
	size_t start = control->n_before + control_taken(control, control->line_start);

	control->refused.length = control->n_batch - start;
	control->refused.hash =
		refused_hash(control->batch + start, control->refused.length);
	control->refused.error = error;
}

/* Ends the batch, releases the lock and answers. error is positive or 0. */
static void control_finish(struct control *control, int error, bool began)
{
	size_t taken =
		control_taken(control, error ? control->line_start : control->position);
	struct completion *wait = control->wait;

	if (error && error != EINTR && began)
		control_remember(control, error);
	/* The count is answered first, the error next time. */
	if (error && taken) {
		control->owed = error == EINTR ? 0 : error;
		error = 0;
	}
	free(take_ptr(control->batch));
	control->n_batch = 0;
	(void)control_charge(control);
	control->busy = false;
	pthread_mutex_unlock(&control->lock);
	/* A signal until here finds no line to cancel. */
	wait->done(wait, -error, NULL, taken);
}

/* ---- lines ---- */

static void control_add_answer(struct control *control, const struct text *answer,
			       bool failed)
{
	if (failed)
		control_drop_answers(control);
	if (!answer->length)
		return;
	if (control->any_answer && !failed)
		text_add(&control->answers, "\n", 1);
	text_add(&control->answers, answer->data, answer->length);
	control->any_answer = true;
}

static void control_line_done(struct command *command, int error)
{
	struct control *control = command->control;

	pthread_mutex_lock(&control->lock);
	control_add_answer(control, &command->answer, error && error != EINTR);
	control->line_error = error;
	control->line_began = command->completion.began;
	control->line_pending = false;
	command->lane = N_USER_LANES;
	line_times_add(control->broker->line_times, control->verb,
		       clock_ns(CLOCK_MONOTONIC) - control->line_started_ns);
	text_deinit(&command->answer);
	line_deinit(&command->line);
	if (control->looping)
		pthread_mutex_unlock(&control->lock);
	else
		control_go(control);
}

/* Whether a signal came: no further line is started. */
static bool control_is_cut(const struct control *control)
{
	return __atomic_load_n(&control->wait->interrupted, __ATOMIC_RELAXED);
}

/*
 * Repeats a signal that came before the line could be interrupted: signals are reported
 * once.
 */
static void control_interrupt_again(struct control *control)
{
	if (control_is_cut(control))
		broker_interrupt(control->broker, control->wait);
}

/* Starts a line. With the lock held, released meanwhile. */
static void control_run(struct control *control, const char *bytes, size_t length)
{
	struct command *command = &control->command;

	command->pid = control->caller.pid;
	command->bytes = bytes;
	command->length = length;
	command->line_number = control->many ? control->line_number : 0;
	command->completion.began = false;
	command->put_off = false;
	control->line_pending = true;
	control->line_started_ns = clock_ns(CLOCK_MONOTONIC);
	pthread_mutex_unlock(&control->lock);
	control->verb->run(command);
	control_interrupt_again(control);
	pthread_mutex_lock(&control->lock);
}

/* A line that is too long is refused, whatever is in the line. */
static bool line_is_blank(const char *bytes, size_t length)
{
	if (length > LINE_MAX_LENGTH)
		return false;
	for (size_t i = 0; i < length; i++) {
		if (bytes[i] != ' ' && bytes[i] != '\t' && bytes[i] != '\r')
			return false;
	}
	return true;
}

/*
 * Ends the batch before the line at this position when the descriptor keeps more than
 * the opener's share. The answers of the lines before stay, to be read. Lock held.
 * Returns: whether the batch goes on.
 */
static bool control_has_room(struct control *control, size_t position)
{
	int r = control_charge(control);

	if (r == 0)
		return true;
	control->line_start = position;
	control->line_error = -r;
	control->line_began = false;
	return false;
}

/*
 * Keeps an unterminated last line for the next write. Lock held. Returns: false without
 * memory.
 */
static bool control_keep_tail(struct control *control)
{
	size_t length = control->n_batch - control->position;

	control->tail = malloc(length + 1);
	if (!control->tail)
		return false;
	control->command.writer = process_identity(control->caller.pid);
	memcpy(control->tail, control->batch + control->position, length);
	control->n_tail = length;
	if (control_has_room(control, control->position)) {
		control->position = control->n_batch;
	} else {
		free(take_ptr(control->tail));
		control->n_tail = 0;
	}
	return true;
}

/*
 * Finds the next line of the batch. Lock held. Returns: false at the end, and when there
 * is no room for the answer.
 */
static bool control_next_line(struct control *control, const char **ret_line,
			      size_t *ret_length, bool *ret_blank)
{
	size_t rest = control->n_batch - control->position;
	const char *line = control->batch + control->position;
	const char *end;

	if (rest == 0)
		return false;
	end = memchr(line, '\n', rest);
	if (!end && !control->whole && rest <= LINE_MAX_LENGTH) {
		/* Without memory the line is run as it is, and reports the error. */
		if (control_keep_tail(control))
			return false;
	}
	*ret_line = line;
	*ret_length = end ? (size_t)(end - line) : rest;
	control->line_start = control->position;
	control->position += *ret_length + (end ? 1 : 0);
	control->line_number++;
	*ret_blank = line_is_blank(line, *ret_length);
	return *ret_blank || control_has_room(control, control->line_start);
}

/* The line begins again, by command->lane. */
static void control_put_off(struct control *control)
{
	control->position = control->line_start;
	control->line_number--;
	control->line_pending = false;
}

/*
 * Runs the batch line by line until the end, or until a line has to wait; the thread that
 * ends this line calls again. With the lock held; releases the lock. While a thread is in
 * this function no other thread ends the batch, so the control is not freed.
 *
 * The thread is the view's or a worker's channel's, which others wait for, and a batch
 * may have thousands of lines: the workqueue goes on with the rest.
 */
static void control_go_held(struct control *control)
{
	unsigned int n_left = LINES_IN_TURN;
	size_t blank_left = BLANK_IN_TURN;
	const char *line;
	size_t length;
	enum user_lane lane;
	bool blank;

	control->looping = true;
	while (!control->line_error && !(control->position && control_is_cut(control)) &&
	       control_next_line(control, &line, &length, &blank)) {
		if (blank)
			blank_left -= MIN(blank_left, MAX(length, (size_t)BLANK_LINE));
		else
			control_run(control, line, length);
		if (!blank && control->command.put_off) {
			control_put_off(control);
			n_left = 0;
		} else if (blank ? blank_left > 0
				 : !control->line_pending && --n_left > 0) {
			continue;
		}
		control->looping = false;
		lane = control->command.lane;
		pthread_mutex_unlock(&control->lock);
		if (n_left > 0 && blank_left > 0)
			return;
		if (lane != N_USER_LANES)
			user_lane_add(control->broker, lane, control->caller.uid,
				      &control->rest);
		else
			workqueue_add(control->broker->workqueue, control->caller.uid,
				      &control->rest);
		return;
	}
	control->looping = false;
	control_finish(control, control->line_error, control->line_began);
}

/* A writer is answered before the ops of the lines begin, which nobody waits for. */
static void control_go(struct control *control)
{
	op_starts_hold();
	control_go_held(control);
	op_starts_release();
}

static void control_go_on(struct task *rest)
{
	struct control *control = container_of(rest, struct control, rest);

	pthread_mutex_lock(&control->lock);
	control_go(control);
}

/* ---- writes ---- */

static bool has_many_lines(const char *bytes, size_t length)
{
	const char *newline = memchr(bytes, '\n', length);

	return newline && newline + 1 < bytes + length;
}

/* Begins a batch: the tail and these bytes. With the lock held; releases the lock. */
static void control_begin(struct control *control, const char *bytes, size_t length,
			  bool whole, struct completion *wait)
{
	control->batch = malloc(control->n_tail + length + 1);
	if (!control->batch) {
		pthread_mutex_unlock(&control->lock);
		wait->done(wait, -ENOMEM, NULL, 0);
		return;
	}
	if (control->n_tail)
		memcpy(control->batch, control->tail, control->n_tail);
	if (length)
		memcpy(control->batch + control->n_tail, bytes, length);
	control->n_before = control->n_tail;
	control->n_batch = control->n_tail + length;
	free(take_ptr(control->tail));
	control->n_tail = 0;
	control->position = control->line_start = 0;
	control->line_number = 0;
	control->many = has_many_lines(control->batch, control->n_batch);
	control->whole = whole;
	control->any_answer = false;
	control->line_error = 0;
	control->busy = true;
	control->wants_state = false;
	control_drop_answers(control);
	control->refused.error = 0;
	command_forget_cgroup(&control->command);
	control->wait = wait;
	wait->inner = &control->command.completion;
	control_go(control);
}

void control_write(struct control *control, pid_t pid, const char *bytes, size_t length,
		   struct completion *wait)
{
	bool whole = length % 4096 != 0 || length == 0 || bytes[length - 1] == '\n';
	pid_t foreign = control_foreign(control, pid);
	int error = 0;

	pthread_mutex_lock(&control->lock);
	if (control->busy) {
		error = EBUSY;
	} else if (control->owed) {
		error = control->owed;
		control->owed = 0;
	} else if (control->refused.error && length == control->refused.length &&
		   refused_hash(bytes, length) == control->refused.hash) {
		error = control->refused.error;
	}
	if (error || length == 0) {
		pthread_mutex_unlock(&control->lock);
		wait->done(wait, -error, NULL, 0);
		return;
	}
	control->caller.pid = pid;
	control->command.writer_left = false;
	/* Also for the lines behind a tail of a foreign writer. */
	if (control->n_tail == 0)
		control->command.foreign = control->foreign;
	if (foreign >= 0)
		control->command.foreign = foreign;
	control_begin(control, bytes, length, whole, wait);
}

void control_flush(struct control *control, struct completion *wait)
{
	pthread_mutex_lock(&control->lock);
	if (control->busy || control->n_tail == 0) {
		pthread_mutex_unlock(&control->lock);
		wait->done(wait, 0, NULL, 0);
		return;
	}
	control->command.writer_left = true;
	control_begin(control, NULL, 0, true, wait);
}

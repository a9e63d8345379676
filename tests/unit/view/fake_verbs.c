/* SPDX-License-Identifier: MIT */
/* Verbs and control files of the broker in memory. */
#include "fake_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void finish(struct command *command, int error)
{
	text_clear(&command->control->answer);
	if (error)
		broker_fail(command->control->broker, &command->control->caller,
			    command->control->verb->name, -error, "it failed");
	command->wait->done(command->wait, error, NULL, command->length);
}

static void verb_alloc(struct command *command)
{
	struct broker *broker = command->control->broker;
	int error = command->n < 2 ? -EINVAL : 0;
	uint64_t size = 0;
	char *end = NULL;

	if (!error)
		size = strtoull(command->words[1], &end, 0);
	if (!error && *end == 'M')
		size <<= 20;
	pthread_mutex_lock(&broker->lock);
	if (!error && fake_find(broker, OBJECT_ALLOCATION, command->words[0]))
		error = -EEXIST;
	if (!error)
		fake_add(broker, OBJECT_ALLOCATION, command->words[0],
			 &command->control->caller, size);
	pthread_mutex_unlock(&broker->lock);
	fake_wake_readers(broker);
	finish(command, error);
}

static void verb_many(struct command *command)
{
	struct broker *broker = command->control->broker;
	unsigned long n = command->n ? strtoul(command->words[0], NULL, 0) : 0;
	char name[32];

	pthread_mutex_lock(&broker->lock);
	for (unsigned long i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "s%lu", i);
		fake_add(broker, OBJECT_STREAM, name, &command->control->caller, 0);
	}
	pthread_mutex_unlock(&broker->lock);
	finish(command, 0);
}

static void verb_wait(struct command *command)
{
	struct broker *broker = command->control->broker;

	pthread_mutex_lock(&broker->lock);
	broker->waiting = command->wait;
	pthread_mutex_unlock(&broker->lock);
}

static const struct verb verbs[] = {
	{ "alloc", "NAME SIZE", "allocates", OBJECT_BROKER, NULL, .run = verb_alloc },
	{ "launch", "N", "makes streams", OBJECT_BROKER, NULL, .run = verb_many },
	{ "synchronize", "STREAM", "waits", OBJECT_STREAM, "1", .run = verb_wait },
};

const struct verb *verb_table(size_t *ret_n)
{
	*ret_n = ARRAY_SIZE(verbs);
	return verbs;
}

int control_new(struct control **ret_control, struct broker *broker,
		const struct verb *verb, struct token token, const struct caller *caller)
{
	struct control *control = calloc(1, sizeof(*control));

	*control = (struct control){ broker, verb, token, *caller, TEXT_INIT };
	control->caller.n_groups = 0;
	control->caller.groups = NULL;
	text_printf(&control->answer, "%s\n", verb->usage);
	*ret_control = control;
	return 0;
}

struct control *control_free(struct control *control)
{
	if (control)
		text_deinit(&control->answer);
	free(control);
	return NULL;
}

void control_write(struct control *control, pid_t pid, const char *bytes, size_t length,
		   struct completion *wait)
{
	_cleanup_free_ char *line = strndup(bytes, length);
	struct command command = { .control = control, .length = length, .wait = wait };
	char *rest = line, *word;

	control->caller.pid = pid;
	while (command.n < ARRAY_SIZE(command.words) && (word = strsep(&rest, " \n")))
		if (*word)
			command.words[command.n++] = word;
	control->verb->run(&command);
}

void control_flush(struct control *control, struct completion *wait)
{
	fake_answer(control->broker, wait, 0, NULL, 0);
}

bool control_wants_state(struct control *control)
{
	(void)control;
	return false;
}

void control_ask_state(struct control *control, struct completion *wait)
{
	fake_answer(control->broker, wait, 0, NULL, 0);
}

int control_tell_state(struct control *control, const char *bytes, size_t length)
{
	(void)control;
	(void)bytes;
	(void)length;
	return 0;
}

size_t control_read(struct control *control, char *bytes, size_t size)
{
	size_t length = MIN(size, control->answer.length);

	memcpy(bytes, text_string(&control->answer), length);
	text_clear(&control->answer);
	return length;
}

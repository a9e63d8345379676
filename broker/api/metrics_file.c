/* SPDX-License-Identifier: MIT */
#include "api/metrics_file.h"

#include <errno.h>
#include <utlist.h>

#include "api/broker.h"
#include "api/metrics.h"
#include "base/completion.h"
#include "base/shared_text.h"
#include "model/registry.h"
#include "model/shares.h"
#include "process/broker.h"

struct metrics_reader {
	struct metrics_reader *prev, *next;
	struct completion *wait; /* NULL: interrupted. registry.lock */
	struct owner *payer;	 /* charged for the question */
};

/* Takes the completions of the readers, and gives back what they were charged for. */
static void readers_end(struct registry *registry, struct metrics_reader *readers)
{
	struct metrics_reader *reader;

	pthread_mutex_lock(&registry->lock);
	DL_FOREACH (readers, reader) {
		reader->wait = completion_take(&reader->wait);
		share_give(reader->payer, SHARE_QUESTIONS, 1);
	}
	pthread_mutex_unlock(&registry->lock);
}

static void readers_answer(struct metrics_reader *readers, int error,
			   struct shared_text *shared)
{
	struct metrics_reader *reader, *next;

	DL_FOREACH_SAFE (readers, reader, next) {
		if (reader->wait) {
			reader->wait->shared = error ? NULL : shared;
			reader->wait->done(reader->wait, error,
					   error ? NULL : text_string(&shared->text),
					   error ? 0 : shared->text.length);
		}
		free(reader);
	}
}

/* Makes a text for all who wait now. Called with registry.lock, which is released
 * meanwhile. */
static void metrics_file_make(struct metrics_file *file)
{
	struct registry *registry = file->broker->registry;
	struct metrics_reader *readers = take_ptr(file->waiting);
	_cleanup_shared_text_ struct shared_text *shared = NULL;
	int r = -ENOMEM;

	pthread_mutex_unlock(&registry->lock);
	shared = shared_text_new();
	if (shared)
		r = metrics_print(file->broker, &shared->text);
	readers_end(registry, readers);
	readers_answer(readers, r, shared);
	pthread_mutex_lock(&registry->lock);
}

static void *metrics_file_main(void *userdata)
{
	struct metrics_file *file = userdata;
	struct registry *registry = file->broker->registry;

	pthread_mutex_lock(&registry->lock);
	while (file->waiting || !file->ending) {
		if (file->waiting)
			metrics_file_make(file);
		else
			pthread_cond_wait(&file->wake, &registry->lock);
	}
	pthread_mutex_unlock(&registry->lock);
	return NULL;
}

int metrics_file_init(struct metrics_file *file, struct broker *broker)
{
	*file = (struct metrics_file){ .broker = broker };
	pthread_cond_init(&file->wake, NULL);
	if (pthread_create(&file->thread, NULL, metrics_file_main, file))
		return -EAGAIN;
	file->runs = true;
	return 0;
}

void metrics_file_deinit(struct metrics_file *file)
{
	if (!file->runs)
		return;
	pthread_mutex_lock(&file->broker->registry->lock);
	file->ending = true;
	pthread_cond_signal(&file->wake);
	pthread_mutex_unlock(&file->broker->registry->lock);
	pthread_join(file->thread, NULL);
	pthread_cond_destroy(&file->wake);
}

void ask_metrics(struct broker *broker, struct token token, const struct caller *caller,
		 struct completion *wait)
{
	struct registry *registry = broker->registry;
	struct metrics_file *file = broker->metrics_file;
	struct metrics_reader *reader = calloc(1, sizeof(*reader));
	_cleanup_text_ struct text why = TEXT_INIT;
	int r;

	(void)token;
	if (!reader) {
		wait->done(wait, -ENOMEM, NULL, 0);
		return;
	}
	pthread_mutex_lock(&registry->lock);
	r = share_take_question(registry, caller, &reader->payer, &why);
	if (r == 0) {
		completion_hold(wait, &reader->wait, NULL);
		DL_APPEND(file->waiting, reader);
		pthread_cond_signal(&file->wake);
	}
	pthread_mutex_unlock(&registry->lock);
	if (r == 0)
		return;
	free(reader);
	broker_fail(broker, caller, "metrics", -r, "%s", text_string(&why));
	wait->done(wait, r, NULL, 0);
}

/* SPDX-License-Identifier: MIT */
#include "api/text_maker.h"

#include <errno.h>
#include <utlist.h>

#include "api/attribute.h"
#include "base/completion.h"
#include "base/hash.h"
#include "base/shared_text.h"
#include "kernels/module_use.h"
#include "model/allocation.h"
#include "model/module.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"
#include "process/broker.h"

/* Without padding: the bytes are hashed. */
struct text_key {
	const struct attribute *attribute;
	struct token token;
};

struct text_reader {
	struct text_key key;
	struct completion *wait; /* NULL: interrupted. registry.lock */
	struct owner *payer;	 /* charged for the question */
	struct text_reader *prev, *next;

	/* Of the first reader of a text alone: */
	struct text_reader *all; /* who get the text, the first reader among them */
	struct turn turn;
	UT_hash_handle hh;
};

/* Takes the completions of the readers, and gives back what they were charged for. */
static void readers_end(struct registry *registry, struct text_reader *readers)
{
	struct text_reader *reader;

	pthread_mutex_lock(&registry->lock);
	DL_FOREACH (readers, reader) {
		reader->wait = completion_take(&reader->wait);
		share_give(reader->payer, SHARE_QUESTIONS, 1);
	}
	pthread_mutex_unlock(&registry->lock);
}

static void readers_answer(struct text_reader *readers, int error,
			   struct shared_text *shared)
{
	struct text_reader *reader, *next;

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

static int text_make(struct broker *broker, const struct text_key *key, struct text *text)
{
	int r = key->attribute->print(broker, key->token, text);

	return r == 0 && text_failed(text) ? -ENOMEM : r;
}

/* Makes a text for all who wait for it now. Called with registry.lock, which is released
 * meanwhile. */
static void text_maker_make(struct text_maker *maker)
{
	struct registry *registry = maker->broker->registry;
	struct turn *turn = turns_take(&maker->order, NULL, NULL);
	struct text_reader *first = container_of(turn, struct text_reader, turn);
	_cleanup_shared_text_ struct shared_text *shared = NULL;
	int r = -ENOMEM;

	HASH_DEL(maker->waiting, first);
	pthread_mutex_unlock(&registry->lock);
	shared = shared_text_new();
	if (shared)
		r = text_make(maker->broker, &first->key, &shared->text);
	readers_end(registry, first->all);
	readers_answer(first->all, r, shared);
	pthread_mutex_lock(&registry->lock);
}

static void *text_maker_main(void *userdata)
{
	struct text_maker *maker = userdata;
	struct registry *registry = maker->broker->registry;

	pthread_mutex_lock(&registry->lock);
	while (maker->waiting || !maker->ending) {
		if (maker->waiting)
			text_maker_make(maker);
		else
			pthread_cond_wait(&maker->wake, &registry->lock);
	}
	pthread_mutex_unlock(&registry->lock);
	return NULL;
}

int text_maker_init(struct text_maker *maker, struct broker *broker)
{
	*maker = (struct text_maker){ .broker = broker };
	pthread_cond_init(&maker->wake, NULL);
	if (pthread_create(&maker->thread, NULL, text_maker_main, maker))
		return -EAGAIN;
	maker->runs = true;
	return 0;
}

void text_maker_deinit(struct text_maker *maker)
{
	if (!maker->runs)
		return;
	pthread_mutex_lock(&maker->broker->registry->lock);
	maker->ending = true;
	pthread_cond_signal(&maker->wake);
	pthread_mutex_unlock(&maker->broker->registry->lock);
	pthread_join(maker->thread, NULL);
	pthread_cond_destroy(&maker->wake);
}

/* Under registry.lock. */
static void reader_add(struct text_maker *maker, struct text_reader *reader)
{
	struct text_reader *first;

	HASH_FIND(hh, maker->waiting, &reader->key, sizeof(reader->key), first);
	if (!first) {
		first = reader;
		HASH_ADD(hh, maker->waiting, key, sizeof(reader->key), reader);
		turns_add(&maker->order, reader->payer->uid, &reader->turn);
		pthread_cond_signal(&maker->wake);
	}
	DL_APPEND(first->all, reader);
}

/* Appends the path of the file in the mount. Under registry.lock. */
static void file_print(const struct broker *broker, const struct text_key *key,
		       struct text *file)
{
	const struct token token = key->token;
	const struct allocation *allocation = NULL;
	const struct function *function = NULL;

	if (key->attribute->print == function_print_params)
		function = function_get(broker->registry, token.slot, token.generation);
	else
		allocation =
			allocation_get(broker->registry, token.slot, token.generation);
	if (allocation)
		text_printf(file, "allocations/%s/", allocation_name(allocation).text);
	if (function)
		text_printf(file, "modules/%s/functions/%s/",
			    module_name(function->image->module).text, function->shown);
	text_printf(file, "%s", key->attribute->name);
}

void text_maker_ask(struct broker *broker, struct token token,
		    const struct attribute *attribute, const struct caller *caller,
		    struct completion *wait)
{
	struct registry *registry = broker->registry;
	struct text_reader *reader = calloc(1, sizeof(*reader));
	_cleanup_text_ struct text why = TEXT_INIT, file = TEXT_INIT;
	int r;

	if (!reader) {
		wait->done(wait, -ENOMEM, NULL, 0);
		return;
	}
	reader->key = (struct text_key){ attribute, token };
	pthread_mutex_lock(&registry->lock);
	r = share_take_question(registry, caller, &reader->payer, &why);
	if (r == 0) {
		completion_hold(wait, &reader->wait, NULL);
		reader_add(broker->text_maker, reader);
	} else {
		file_print(broker, &reader->key, &file);
	}
	pthread_mutex_unlock(&registry->lock);
	if (r == 0)
		return;
	free(reader);
	broker_fail(broker, caller, text_string(&file), -r, "%s", text_string(&why));
	wait->done(wait, r, NULL, 0);
}

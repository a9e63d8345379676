/* SPDX-License-Identifier: MIT */
/*
 * A broker in memory: the API of api/broker.h without a GPU, a worker or a driver,
 * for tests of the view alone. Data is host memory. Like the real broker, a separate
 * thread answers requests that may wait. The verb `wait` waits until interrupted; the
 * verb `many` makes a number of streams at once.
 *
 * A single lock guards everything, and no callback is called under the lock.
 */
#include "fake_private.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* ---- objects; the lock is held ---- */

struct object *fake_resolve(struct broker *broker, enum object_type type,
			    struct token token)
{
	struct objects *objects = &broker->objects[type];

	if (token.slot >= objects->n ||
	    objects->slots[token.slot].generation != token.generation ||
	    !token.generation)
		return NULL;
	return &objects->slots[token.slot];
}

struct object *fake_find(struct broker *broker, enum object_type type, const char *name)
{
	struct objects *objects = &broker->objects[type];

	for (size_t i = 0; i < objects->n; i++)
		if (objects->slots[i].generation && !strcmp(objects->slots[i].name, name))
			return &objects->slots[i];
	return NULL;
}

void fake_changed(struct broker *broker, const char *event, const char *name)
{
	text_printf(&broker->events, "%s %s\n", event, name);
}

struct object *fake_add(struct broker *broker, enum object_type type, const char *name,
			const struct caller *caller, uint64_t size)
{
	struct objects *objects = &broker->objects[type];
	struct object *object;

	if (objects->n == objects->capacity) {
		objects->capacity = MAX((size_t)64, objects->capacity * 2);
		objects->slots = reallocarray(objects->slots, objects->capacity,
					      sizeof(*objects->slots));
	}
	object = &objects->slots[objects->n++];
	*object = (struct object){ .id = ++broker->id, .generation = 7, .fd = -1 };
	snprintf(object->name, sizeof(object->name), "%s", name);
	object->uid = caller->uid;
	object->gid = caller->gid;
	object->mode = 0600;
	object->changed_s = time(NULL);
	object->size = size;
	if (size) {
		object->fd = memfd_create("fake", MFD_CLOEXEC);
		if (ftruncate(object->fd, size))
			abort();
		object->bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
				     object->fd, 0);
	}
	fake_changed(broker, "create", name);
	return object;
}

void fake_drop(struct object *object)
{
	if (object->bytes)
		munmap(object->bytes, object->size);
	closep(&object->fd);
	object->bytes = NULL;
	object->generation = 0;
}

void fake_wake_readers(struct broker *broker)
{
	pthread_mutex_lock(&broker->lock);
	for (struct event_reader *reader = broker->readers; reader;
	     reader = reader->next) {
		reader->waking = true;
		pthread_mutex_unlock(&broker->lock);
		reader->wake(reader->userdata);
		pthread_mutex_lock(&broker->lock);
		reader->waking = false;
		pthread_cond_broadcast(&broker->changed);
	}
	pthread_mutex_unlock(&broker->lock);
}

/* ---- tables ---- */

const char *object_folder(enum object_type type)
{
	static const char *const folders[] = {
		[OBJECT_BROKER] = "",
		[OBJECT_ALLOCATION] = "allocations",
		[OBJECT_STREAM] = "streams",
		[OBJECT_DEVICE] = "devices",
		[OBJECT_OWNER] = "owners",
		[OBJECT_MODULE] = "modules",
		[OBJECT_FUNCTION] = "functions",
	};

	return folders[type];
}

static void show_id(const struct attribute_view *view, struct text *text)
{
	text_printf(text, "%llu", (unsigned long long)view->object->id);
}

static void show_size(const struct attribute_view *view, struct text *text)
{
	text_printf(text, "%llu", (unsigned long long)view->object->size);
}

static void show_version(const struct attribute_view *view, struct text *text)
{
	(void)view;
	text_printf(text, "fake");
}

static const struct attribute broker_attributes[] = {
	{ "version", "of program and driver", ATTRIBUTE_ROOT_FILE, show_version },
};

static const struct attribute allocation_attributes[] = {
	{ "id", "its number", 0, show_id },
	{ "size_bytes", "bytes", 0, show_size },
	{ "tag", "a word of the owner's", ATTRIBUTE_WRITABLE, show_id },
	{ "used_by", "asked of a worker", ATTRIBUTE_ASKED },
	{ "last_prefetch", "of managed memory", ATTRIBUTE_MANAGED, show_id },
};

static const struct attribute stream_attributes[] = {
	{ "priority", "its priority", 0, show_id },
};

static const struct attribute module_attributes[] = {
	{ "device", "its device", ATTRIBUTE_WRITABLE, show_id },
};

static const struct attribute function_attributes[] = {
	{ "name", "as in the module", 0, show_id },
};

static const struct attribute owner_attributes[] = {
	{ "output", "what kernels printed", ATTRIBUTE_PRIVATE, show_id },
};

const struct attribute_table attribute_tables[N_OBJECT_TYPES] = {
	[OBJECT_BROKER] = ATTRIBUTE_TABLE(broker_attributes),
	[OBJECT_ALLOCATION] = ATTRIBUTE_TABLE(allocation_attributes),
	[OBJECT_STREAM] = ATTRIBUTE_TABLE(stream_attributes),
	[OBJECT_OWNER] = ATTRIBUTE_TABLE(owner_attributes),
	[OBJECT_MODULE] = ATTRIBUTE_TABLE(module_attributes),
	[OBJECT_FUNCTION] = ATTRIBUTE_TABLE(function_attributes),
};

/* ---- jobs ---- */

void fake_answer(struct broker *broker, struct completion *wait, int error, void *bytes,
		 size_t length)
{
	struct job *job = calloc(1, sizeof(*job));
	struct job **last;

	*job = (struct job){ NULL, wait, error, bytes, length };
	pthread_mutex_lock(&broker->lock);
	for (last = &broker->jobs; *last; last = &(*last)->next)
		;
	*last = job;
	pthread_cond_broadcast(&broker->changed);
	pthread_mutex_unlock(&broker->lock);
}

static void *work(void *data)
{
	struct broker *broker = data;
	struct job *job;

	pthread_mutex_lock(&broker->lock);
	while (!broker->ending || broker->jobs) {
		job = broker->jobs;
		if (!job) {
			pthread_cond_wait(&broker->changed, &broker->lock);
			continue;
		}
		broker->jobs = job->next;
		pthread_mutex_unlock(&broker->lock);
		job->wait->done(job->wait, job->error, job->bytes, job->length);
		free(job->bytes);
		free(job);
		pthread_mutex_lock(&broker->lock);
	}
	pthread_mutex_unlock(&broker->lock);
	return NULL;
}

void broker_interrupt(struct broker *broker, struct completion *wait)
{
	bool waits;

	pthread_mutex_lock(&broker->lock);
	waits = broker->waiting == wait;
	if (waits)
		broker->waiting = NULL;
	pthread_mutex_unlock(&broker->lock);
	if (waits)
		wait->done(wait, -EINTR, NULL, 0);
}

/* ---- journal ---- */

void broker_errors(struct broker *broker, const struct caller *caller, struct text *text)
{
	(void)caller;
	pthread_mutex_lock(&broker->lock);
	text_add(text, text_string(&broker->errors), broker->errors.length);
	pthread_mutex_unlock(&broker->lock);
}

void broker_fail(struct broker *broker, const struct caller *caller, const char *file,
		 int error, const char *format, ...)
{
	char sentence[256];
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	pthread_mutex_lock(&broker->lock);
	text_printf(&broker->errors, "pid=%d %s %d %s\n", (int)caller->pid, file, error,
		    sentence);
	pthread_mutex_unlock(&broker->lock);
}

void broker_events(struct broker *broker, struct text *text)
{
	pthread_mutex_lock(&broker->lock);
	text_add(text, text_string(&broker->events), broker->events.length);
	pthread_mutex_unlock(&broker->lock);
}

int broker_reader_take(struct broker *broker, const struct caller *caller)
{
	(void)broker;
	(void)caller;
	return 0;
}

void broker_reader_give(struct broker *broker, const struct caller *caller)
{
	(void)broker;
	(void)caller;
}

int broker_text_charge(struct broker *broker, const struct caller *caller,
		       const char *file, uint64_t before, uint64_t now)
{
	(void)broker;
	(void)caller;
	(void)file;
	(void)before;
	(void)now;
	return 0;
}

struct event_reader *event_reader_new(struct broker *broker, void (*wake)(void *userdata),
				      void *userdata)
{
	struct event_reader *reader = calloc(1, sizeof(*reader));

	pthread_mutex_lock(&broker->lock);
	*reader = (struct event_reader){ broker->readers, wake, userdata,
					 broker->events.length, false };
	broker->readers = reader;
	pthread_mutex_unlock(&broker->lock);
	return reader;
}

static struct broker *the_broker;

struct event_reader *event_reader_free(struct event_reader *reader)
{
	struct broker *broker = the_broker;
	struct event_reader **at;

	if (!reader)
		return NULL;
	pthread_mutex_lock(&broker->lock);
	while (reader->waking)
		pthread_cond_wait(&broker->changed, &broker->lock);
	for (at = &broker->readers; *at != reader; at = &(*at)->next)
		;
	*at = reader->next;
	pthread_mutex_unlock(&broker->lock);
	free(reader);
	return NULL;
}

size_t event_reader_take(struct event_reader *reader, char *bytes, size_t size)
{
	struct broker *broker = the_broker;
	size_t length;

	pthread_mutex_lock(&broker->lock);
	length = MIN(size, broker->events.length - reader->at);
	memcpy(bytes, text_string(&broker->events) + reader->at, length);
	reader->at += length;
	pthread_mutex_unlock(&broker->lock);
	return length;
}

/* ---- life ---- */

int broker_new(struct broker **ret_broker, const struct broker_config *config,
	       struct text *why)
{
	const struct caller root = { 0 };
	struct broker *broker;

	if (!strstr(config->driver, "libcuda")) {
		text_printf(why, "not a driver");
		return -ENOENT;
	}
	broker = calloc(1, sizeof(*broker));
	pthread_mutex_init(&broker->lock, NULL);
	pthread_cond_init(&broker->changed, NULL);
	fake_add(broker, OBJECT_OWNER, "0", &root, 0);
	fake_add(broker, OBJECT_DEVICE, "0", &root, 0);
	the_broker = broker;
	*ret_broker = broker;
	return -pthread_create(&broker->thread, NULL, work, broker);
}

int broker_begin(struct broker *broker, struct keep *keep, const char *socket,
		 struct text *why)
{
	(void)broker, (void)keep, (void)socket, (void)why;
	return 0;
}

void broker_summary(struct broker *broker, struct text *text)
{
	(void)broker;
	text_printf(text, "no devices");
}

int broker_limits(struct broker *broker, const char *path, struct text *why)
{
	(void)broker;
	text_printf(why, "%s: the fake broker keeps no limits", path);
	return -EOPNOTSUPP;
}

unsigned int broker_pause(struct broker *broker)
{
	(void)broker;
	return 1;
}

void broker_go_on(struct broker *broker)
{
	(void)broker;
}

void broker_watch_view(struct broker *broker, bool (*lives)(void *userdata),
		       void *userdata)
{
	(void)broker;
	(void)lives;
	(void)userdata;
}

void broker_shutdown(struct broker *broker)
{
	(void)broker;
}

void broker_drain(struct broker *broker)
{
	(void)broker;
}

int broker_free(struct broker *broker, struct text *why)
{
	(void)why;
	pthread_mutex_lock(&broker->lock);
	broker->ending = true;
	pthread_cond_broadcast(&broker->changed);
	pthread_mutex_unlock(&broker->lock);
	pthread_join(broker->thread, NULL);
	for (unsigned int type = 0; type < N_OBJECT_TYPES; type++) {
		for (size_t i = 0; i < broker->objects[type].n; i++)
			fake_drop(&broker->objects[type].slots[i]);
		free(broker->objects[type].slots);
	}
	text_deinit(&broker->events);
	text_deinit(&broker->errors);
	free(broker);
	return 0;
}

/* ---- nobody looks ---- */

void broker_look_begin(void)
{
}

void broker_look_end(void)
{
}

void broker_look(bool (*over)(void *userdata), void *userdata)
{
	(void)over;
	(void)userdata;
}

int broker_note_opening(struct broker *broker, struct token token, uid_t uid)
{
	(void)broker;
	(void)token;
	(void)uid;
	return 0;
}

void broker_note_opened(struct broker *broker, struct token token)
{
	(void)broker;
	(void)token;
}

/* SPDX-License-Identifier: MIT */
/*
 * A broker in memory: the API of api/broker.h without a GPU, a worker or a driver,
 * for tests of the view alone. Data is host memory. Like the real broker, a separate
 * thread answers requests that may wait. The verb `wait` waits until interrupted; the
 * verb `many` makes a number of streams at once.
 *
 * A single lock guards everything, and no callback is called under the lock.
 */
#include "api/attribute.h"
#include "api/control_file.h"
#include "api/upload.h"
#include "base/def.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define PAYLOAD 80
#define PAGE	4096
#define BUFFER	((1 << 20) + PAGE)

struct object {
	char name[OBJECT_NAME_MAX + 1];
	uint64_t id;
	uint32_t generation; /* 0: free */
	uid_t uid;
	gid_t gid;
	mode_t mode;
	uint64_t size;
	int fd;
	uint8_t *bytes;
	int64_t changed_s;
};

struct objects {
	struct object *slots;
	size_t n, capacity;
};

struct job {
	struct job *next;
	struct completion *wait;
	int error;
	void *bytes;
	size_t length;
};

struct event_reader {
	struct event_reader *next;
	void (*wake)(void *userdata);
	void *userdata;
	uint64_t at;
	bool waking;
};

struct broker {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct objects objects[N_OBJECT_TYPES];
	struct job *jobs;
	struct completion *waiting;
	struct event_reader *readers;
	struct text events, errors;
	uint64_t id;
	bool ending;
	pthread_t thread;
};

struct control {
	struct broker *broker;
	const struct verb *verb;
	struct token token;
	struct caller caller;
	struct text answer;
};

struct attribute_view {
	enum object_type type;
	const struct object *object;
	uint32_t slot;
};

struct command {
	struct control *control;
	char *words[8];
	unsigned int n;
	size_t length;
	struct completion *wait;
};

/* ---- objects; the lock is held ---- */

static struct object *resolve(struct broker *broker, enum object_type type,
			      struct token token)
{
	struct objects *objects = &broker->objects[type];

	if (token.slot >= objects->n ||
	    objects->slots[token.slot].generation != token.generation ||
	    !token.generation)
		return NULL;
	return &objects->slots[token.slot];
}

static struct object *find(struct broker *broker, enum object_type type, const char *name)
{
	struct objects *objects = &broker->objects[type];

	for (size_t i = 0; i < objects->n; i++)
		if (objects->slots[i].generation && !strcmp(objects->slots[i].name, name))
			return &objects->slots[i];
	return NULL;
}

static void changed(struct broker *broker, const char *event, const char *name)
{
	text_printf(&broker->events, "%s %s\n", event, name);
}

static struct object *add(struct broker *broker, enum object_type type, const char *name,
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
	changed(broker, "create", name);
	return object;
}

static void drop(struct object *object)
{
	if (object->bytes)
		munmap(object->bytes, object->size);
	closep(&object->fd);
	object->bytes = NULL;
	object->generation = 0;
}

static void wake_readers(struct broker *broker)
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
	{ "size", "bytes", 0, show_size },
	{ "tag", "a word of the owner's", ATTRIBUTE_WRITABLE, show_id },
	{ "asked", "asked of a worker", ATTRIBUTE_ASKED },
	{ "prefetched", "of managed memory", ATTRIBUTE_MANAGED, show_id },
};

static const struct attribute stream_attributes[] = {
	{ "id", "its number", 0, show_id },
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

const struct attribute *attribute_table(enum object_type type, size_t *ret_n)
{
	static const struct {
		const struct attribute *rows;
		size_t n;
	} tables[N_OBJECT_TYPES] = {
		[OBJECT_BROKER] = { broker_attributes, ARRAY_SIZE(broker_attributes) },
		[OBJECT_ALLOCATION] = { allocation_attributes,
					ARRAY_SIZE(allocation_attributes) },
		[OBJECT_STREAM] = { stream_attributes, ARRAY_SIZE(stream_attributes) },
		[OBJECT_OWNER] = { owner_attributes, ARRAY_SIZE(owner_attributes) },
		[OBJECT_MODULE] = { module_attributes, ARRAY_SIZE(module_attributes) },
		[OBJECT_FUNCTION] = { function_attributes,
				      ARRAY_SIZE(function_attributes) },
	};

	*ret_n = tables[type].n;
	return tables[type].rows;
}

/* ---- jobs ---- */

static void answer(struct broker *broker, struct completion *wait, int error, void *bytes,
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

/* ---- verbs ---- */

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
	if (!error && find(broker, OBJECT_ALLOCATION, command->words[0]))
		error = -EEXIST;
	if (!error)
		add(broker, OBJECT_ALLOCATION, command->words[0],
		    &command->control->caller, size);
	pthread_mutex_unlock(&broker->lock);
	wake_readers(broker);
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
		add(broker, OBJECT_STREAM, name, &command->control->caller, 0);
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
	{ "alloc", "NAME SIZE", "allocates", OBJECT_BROKER, NULL, false, verb_alloc },
	{ "many", "N", "makes streams", OBJECT_BROKER, NULL, false, verb_many },
	{ "wait", "", "waits for a signal", OBJECT_BROKER, NULL, false, verb_wait },
	{ "synchronize", "STREAM", "waits", OBJECT_STREAM, "1", false, verb_wait },
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

void control_flush(struct control *control, pid_t pid, struct completion *wait)
{
	(void)pid;
	answer(control->broker, wait, 0, NULL, 0);
}

bool control_wants_state(struct control *control)
{
	(void)control;
	return false;
}

void control_ask_state(struct control *control, struct completion *wait)
{
	answer(control->broker, wait, 0, NULL, 0);
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

/* ---- names ---- */

int broker_find(struct broker *broker, enum object_type type, struct token in,
		const char *name, const struct caller *caller, struct token *ret_token)
{
	struct object *object;

	(void)in;
	(void)caller;
	pthread_mutex_lock(&broker->lock);
	object = find(broker, type, name);
	if (object)
		*ret_token = (struct token){ object - broker->objects[type].slots,
					     object->generation };
	pthread_mutex_unlock(&broker->lock);
	return object ? 0 : -ENOENT;
}

void broker_look_up(struct broker *broker, enum object_type type, struct token in,
		    const char *name, struct completion *wait)
{
	(void)type;
	(void)in;
	(void)name;
	answer(broker, wait, -ENOENT, NULL, 0);
}

int broker_path(struct broker *broker, enum object_type type, struct token token,
		struct text *text)
{
	struct object *object;

	pthread_mutex_lock(&broker->lock);
	object = resolve(broker, type, token);
	if (object)
		text_printf(text, "%s/%s", object_folder(type), object->name);
	pthread_mutex_unlock(&broker->lock);
	return object ? 0 : -ESTALE;
}

size_t broker_list(struct broker *broker, enum object_type type, struct token in,
		   const struct caller *caller, uint64_t cookie, struct listing *entries,
		   size_t n)
{
	struct objects *objects = &broker->objects[type];
	size_t filled = 0;

	(void)in;
	(void)caller;
	pthread_mutex_lock(&broker->lock);
	for (size_t i = cookie; i < objects->n && filled < n; i++) {
		struct object *object = &objects->slots[i];

		if (!object->generation)
			continue;
		entries[filled].token = (struct token){ i, object->generation };
		entries[filled].next = i + 1;
		memcpy(entries[filled++].name, object->name, sizeof(object->name));
	}
	pthread_mutex_unlock(&broker->lock);
	return filled;
}

int broker_stat(struct broker *broker, enum object_type type, struct token token,
		struct object_stat *ret_stat)
{
	struct object *object;

	pthread_mutex_lock(&broker->lock);
	object = resolve(broker, type, token);
	if (object)
		*ret_stat = (struct object_stat){
			.id = object->id,
			.uid = object->uid,
			.gid = object->gid,
			.mode = object->mode,
			.size = object->size,
			.changed_s = object->changed_s,
			.host = object->name[0] == 'h',
			.managed = object->name[0] == 'm',
		};
	pthread_mutex_unlock(&broker->lock);
	return object ? 0 : -ESTALE;
}

int broker_show(struct broker *broker, enum object_type type, struct token token,
		const struct attribute *attribute, struct text *text)
{
	struct attribute_view view = { .type = type };
	int error = 0;

	pthread_mutex_lock(&broker->lock);
	view.object = type == OBJECT_BROKER ? NULL : resolve(broker, type, token);
	if (type != OBJECT_BROKER && !view.object)
		error = -ESTALE;
	else if (attribute)
		attribute->show(&view, text);
	else
		text_printf(text, "status");
	text_printf(text, "\n");
	pthread_mutex_unlock(&broker->lock);
	return error;
}

int broker_store(struct broker *broker, enum object_type type, struct token token,
		 const struct attribute *attribute, const struct caller *caller,
		 const char *value, size_t length)
{
	struct object_stat stat;

	(void)attribute;
	(void)caller;
	return length && *value != '!' ? broker_stat(broker, type, token, &stat)
				       : -EINVAL;
}

int broker_create(struct broker *broker, enum object_type type, const char *name,
		  const struct caller *caller, struct token *ret_token)
{
	if (type != OBJECT_STREAM) {
		broker_fail(broker, caller, object_folder(type), EPERM,
			    "see control/alloc");
		return -EPERM;
	}
	if (!broker_find(broker, type, TOKEN_NONE, name, caller, ret_token))
		return -EEXIST;
	pthread_mutex_lock(&broker->lock);
	add(broker, type, name, caller, 0);
	pthread_mutex_unlock(&broker->lock);
	wake_readers(broker);
	return broker_find(broker, type, TOKEN_NONE, name, caller, ret_token);
}

int broker_remove(struct broker *broker, enum object_type type, const char *name,
		  const struct caller *caller)
{
	struct object *object;

	(void)caller;
	pthread_mutex_lock(&broker->lock);
	object = find(broker, type, name);
	if (object)
		drop(object);
	changed(broker, "remove", name);
	pthread_mutex_unlock(&broker->lock);
	wake_readers(broker);
	return object ? 0 : -ENOENT;
}

int broker_rename(struct broker *broker, enum object_type type, const char *name,
		  const char *new_name, const struct caller *caller)
{
	struct object *object;
	int error = 0;

	(void)caller;
	pthread_mutex_lock(&broker->lock);
	object = find(broker, type, name);
	if (!object)
		error = -ENOENT;
	else if (find(broker, type, new_name))
		error = -EEXIST;
	else
		snprintf(object->name, sizeof(object->name), "%.64s", new_name);
	pthread_mutex_unlock(&broker->lock);
	return error;
}

int broker_change(struct broker *broker, enum object_type type, struct token token,
		  const struct caller *caller, mode_t mode, uid_t uid, gid_t gid)
{
	struct object *object;

	(void)caller;
	pthread_mutex_lock(&broker->lock);
	object = resolve(broker, type, token);
	if (object) {
		object->mode = mode == (mode_t)-1 ? object->mode : mode;
		object->uid = uid == (uid_t)-1 ? object->uid : uid;
		object->gid = gid == (gid_t)-1 ? object->gid : gid;
	}
	pthread_mutex_unlock(&broker->lock);
	return object ? 0 : -ESTALE;
}

void broker_ask(struct broker *broker, struct token token,
		const struct attribute *attribute, const struct caller *caller,
		struct completion *wait)
{
	(void)token;
	(void)attribute;
	(void)caller;
	answer(broker, wait, 0, strdup("answered\n"), 9);
}

/* ---- modules: there are none ---- */

int upload_new(struct upload **ret_upload, struct broker *broker, enum object_type type,
	       struct token token, const struct caller *caller)
{
	(void)ret_upload;
	(void)broker;
	(void)type;
	(void)token;
	(void)caller;
	return -ESTALE;
}

struct upload *upload_free(struct upload *upload)
{
	assert(!upload);
	return NULL;
}

uint64_t upload_size(struct upload *upload)
{
	(void)upload;
	return 0;
}

long upload_read(struct upload *upload, uint64_t offset, void *bytes, size_t size)
{
	(void)upload;
	(void)offset;
	(void)bytes;
	(void)size;
	return -EIO;
}

int upload_write(struct upload *upload, pid_t pid, uint64_t offset, const void *bytes,
		 size_t size)
{
	(void)upload;
	(void)pid;
	(void)offset;
	(void)bytes;
	(void)size;
	return -EIO;
}

int upload_resize(struct upload *upload, pid_t pid, uint64_t size)
{
	(void)upload;
	(void)pid;
	(void)size;
	return -EIO;
}

void upload_flush(struct upload *upload, pid_t pid, struct completion *wait)
{
	(void)upload;
	(void)pid;
	wait->done(wait, -EIO, NULL, 0);
}

void broker_space(struct broker *broker, const struct caller *caller,
		  struct completion *wait)
{
	struct broker_space *space = calloc(1, sizeof(*space));

	(void)caller;
	*space = (struct broker_space){ 1ull << 40, 1ull << 39, 3 };
	answer(broker, wait, 0, space, sizeof(*space));
}

/* ---- data ---- */

int broker_buffer_get(struct broker *broker, struct buffer *ret_buffer)
{
	uint8_t *pages = aligned_alloc(PAGE, BUFFER + PAGE);

	(void)broker;
	if (!pages)
		return -ENOMEM;
	*ret_buffer = (struct buffer){ -1, pages + PAGE - PAYLOAD, BUFFER };
	return 0;
}

void broker_buffer_put(struct broker *broker, struct buffer *buffer)
{
	(void)broker;
	free(buffer->memory - PAGE + PAYLOAD);
	buffer->memory = NULL;
}

/* The bytes of a range. Returns: how many; -ESTALE. */
static ssize_t range(struct broker *broker, struct token token, uint64_t offset,
		     size_t length, uint8_t **ret_bytes)
{
	struct object *object = resolve(broker, OBJECT_ALLOCATION, token);

	if (!object)
		return -ESTALE;
	if (offset >= object->size)
		return 0;
	*ret_bytes = object->bytes + offset;
	return MIN((uint64_t)length, object->size - offset);
}

void broker_read(struct broker *broker, struct token token, const struct caller *caller,
		 uint64_t offset, size_t length, struct completion *wait)
{
	uint8_t *bytes, *copy = malloc(length ? length : 1);
	ssize_t n;

	(void)caller;
	pthread_mutex_lock(&broker->lock);
	n = range(broker, token, offset, length, &bytes);
	if (n > 0)
		memcpy(copy, bytes, n);
	pthread_mutex_unlock(&broker->lock);
	answer(broker, wait, n < 0 ? (int)n : 0, copy, MAX(n, (ssize_t)0));
}

void broker_writer_init(struct broker *broker, struct writer *writer, struct token token)
{
	(void)broker;
	*writer = (struct writer){ .token = token };
}

void broker_write(struct broker *broker, struct writer *writer,
		  const struct caller *caller, uint64_t offset, const void *bytes,
		  size_t length, struct buffer *buffer, struct completion *wait)
{
	struct buffer kept = *buffer;
	uint8_t *target;
	ssize_t n;

	(void)caller;
	buffer->memory = NULL;
	pthread_mutex_lock(&broker->lock);
	n = range(broker, writer->token, offset, length, &target);
	if (n > 0)
		memcpy(target, bytes, n);
	pthread_mutex_unlock(&broker->lock);
	broker_buffer_put(broker, &kept);
	answer(broker, wait, n < 0 ? (int)n : n == 0 ? -ENOSPC : 0, NULL, n);
}

void broker_sync(struct broker *broker, struct writer *writer,
		 const struct caller *caller, struct completion *wait)
{
	(void)writer;
	(void)caller;
	answer(broker, wait, 0, NULL, 0);
}

void broker_zero(struct broker *broker, struct writer *writer,
		 const struct caller *caller, uint64_t offset, uint64_t length,
		 struct completion *wait)
{
	uint8_t *bytes;
	ssize_t n;

	(void)caller;
	pthread_mutex_lock(&broker->lock);
	n = range(broker, writer->token, offset, length, &bytes);
	if (n > 0)
		memset(bytes, 0, n);
	pthread_mutex_unlock(&broker->lock);
	answer(broker, wait,
	       n < 0		      ? (int)n
	       : (uint64_t)n < length ? -ENOSPC
				      : 0,
	       NULL, 0);
}

void broker_truncate(struct broker *broker, struct token token,
		     const struct caller *caller, uint64_t size, struct completion *wait)
{
	uint8_t *bytes;
	ssize_t n;

	(void)caller;
	pthread_mutex_lock(&broker->lock);
	n = range(broker, token, size, SIZE_MAX, &bytes);
	if (n > 0)
		memset(bytes, 0, n);
	pthread_mutex_unlock(&broker->lock);
	answer(broker, wait, n < 0 ? (int)n : 0, NULL, 0);
}

void broker_copy_range(struct broker *broker, struct token source, uint64_t source_offset,
		       struct writer *target, uint64_t target_offset, uint64_t length,
		       const struct caller *caller, struct completion *wait)
{
	uint8_t *from, *to;
	ssize_t n;

	(void)caller;
	pthread_mutex_lock(&broker->lock);
	n = range(broker, source, source_offset, length, &from);
	if (n > 0)
		n = range(broker, target->token, target_offset, n, &to);
	if (n > 0)
		memmove(to, from, n);
	pthread_mutex_unlock(&broker->lock);
	answer(broker, wait, n < 0 ? (int)n : 0, NULL, MAX(n, (ssize_t)0));
}

int broker_host_fd(struct broker *broker, struct token token)
{
	struct object *object;
	int fd = -ESTALE;

	pthread_mutex_lock(&broker->lock);
	object = resolve(broker, OBJECT_ALLOCATION, token);
	if (object)
		fd = object->name[0] == 'h' ? dup(object->fd) : -ENODEV;
	pthread_mutex_unlock(&broker->lock);
	return fd;
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
	add(broker, OBJECT_OWNER, "0", &root, 0);
	add(broker, OBJECT_DEVICE, "0", &root, 0);
	the_broker = broker;
	*ret_broker = broker;
	return -pthread_create(&broker->thread, NULL, work, broker);
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
			drop(&broker->objects[type].slots[i]);
		free(broker->objects[type].slots);
	}
	text_deinit(&broker->events);
	text_deinit(&broker->errors);
	free(broker);
	return 0;
}

/* ---- leases: none here ---- */

int broker_lease_open(struct broker *broker, struct token token,
		      const struct caller *caller, bool write,
		      void (*wake)(void *userdata), void *userdata,
		      struct lease **ret_lease)
{
	(void)broker;
	(void)token;
	(void)caller;
	(void)write;
	(void)wake;
	(void)userdata;
	(void)ret_lease;
	return -EOPNOTSUPP;
}

void broker_lease_read(struct lease *lease, struct completion *wait)
{
	(void)lease;
	wait->done(wait, -EOPNOTSUPP, NULL, 0);
}

void broker_lease_hold(struct lease *lease, const struct caller *caller, uint32_t hold,
		       struct completion *wait)
{
	(void)lease;
	(void)caller;
	(void)hold;
	wait->done(wait, -EOPNOTSUPP, NULL, 0);
}

void broker_lease_write(struct lease *lease, const struct caller *caller,
			const char *line, size_t length, struct completion *wait)
{
	(void)lease;
	(void)caller;
	(void)line;
	(void)length;
	wait->done(wait, -EOPNOTSUPP, NULL, 0);
}

bool broker_lease_changed(struct lease *lease)
{
	(void)lease;
	return false;
}

struct lease *broker_lease_close(struct lease *lease)
{
	(void)lease;
	return NULL;
}

int broker_redeem(struct broker *broker, const char *ticket, size_t length, uid_t uid)
{
	(void)broker;
	(void)ticket;
	(void)length;
	(void)uid;
	return -ENOENT;
}

int broker_refuse_sealed(struct broker *broker, const struct caller *caller,
			 struct token token, const char *file)
{
	(void)broker;
	(void)caller;
	(void)token;
	(void)file;
	return -EPERM;
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

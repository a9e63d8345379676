/* SPDX-License-Identifier: MIT */
#include "unit/broker_help.h"
#include "api/upload.h"
#include "base/handle_table.h"
#include "base/workqueue.h"
#include "memory/reclaim.h"
#include "model/allocation.h"
#include "model/device.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"
#include "process/user_lanes.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <dirent.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

const struct caller nobody_special = { .uid = 1000, .gid = 1000, .pid = 42 };

/* ---- answers ---- */

static void answer_done(struct completion *wait, int error, const void *bytes,
			size_t length)
{
	struct answer *answer = container_of(wait, struct answer, wait);

	pthread_mutex_lock(&answer->lock);
	answer->n++;
	answer->error = error;
	answer->length = length;
	if (bytes)
		memcpy(answer->bytes, bytes, MIN(length, sizeof(answer->bytes)));
	pthread_cond_broadcast(&answer->change);
	pthread_mutex_unlock(&answer->lock);
}

struct completion *answer_expect(struct answer *answer)
{
	*answer = (struct answer){
		.wait = { .done = answer_done },
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.change = PTHREAD_COND_INITIALIZER,
	};
	return &answer->wait;
}

int answer_get(struct answer *answer)
{
	pthread_mutex_lock(&answer->lock);
	while (!answer->n)
		pthread_cond_wait(&answer->change, &answer->lock);
	pthread_mutex_unlock(&answer->lock);
	cr_assert(eq(uint, answer->n, 1));
	return answer->error;
}

/* ---- the broker ---- */

struct broker *broker_start(const char *memory, const char *options)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	const struct broker_config config = {
		.driver = getenv("GPUMEM_DRIVER"),
		.worker = getenv("GPUMEM_WORKER"),
		.version = "test",
		.worker_idle_s = 60,
	};
	struct broker *broker = NULL;
	char variable[256];

	snprintf(variable, sizeof(variable), "memory=%s:machine=broker-%d%s%s", memory,
		 getpid(), options ? ":" : "", options ? options : "");
	setenv("GPUMEM_SOFTGPU", variable, 1);
	cr_assert(eq(int, broker_new(&broker, &config, &why), 0), "%s",
		  text_string(&why));
	cr_assert(eq(int, broker_begin(broker, NULL, NULL, &why), 0), "%s",
		  text_string(&why));
	return broker;
}

static unsigned int slots_out(struct broker *broker)
{
	unsigned int out;

	pthread_mutex_lock(&broker->registry->lock);
	pthread_mutex_lock(&broker->processes->mover.lock);
	out = broker->processes->mover.staging.n_slots -
	      broker->processes->mover.staging.n_free -
	      broker->processes->mover.n_readaheads;
	pthread_mutex_unlock(&broker->processes->mover.lock);
	pthread_mutex_unlock(&broker->registry->lock);
	return out;
}

static void expect_nothing_left(struct broker *broker)
{
	struct allocation *allocation;
	struct owner *owner;
	uint64_t n_in_worker = 0;

	pthread_mutex_lock(&broker->registry->lock);
	cr_assert(eq(u64, broker->registry->n_busy, 0));
	for (unsigned int i = 0; i < DEVICES_MAX; i++) {
		cr_assert(eq(uint, broker->reclaim->n_coming[i], 0));
		cr_assert(eq(ptr, broker->reclaim->waiters[i], NULL));
	}
	for (owner = broker->registry->owners_by_uid; owner; owner = owner->hh.next) {
		cr_assert(eq(u64, owner->shares.held[SHARE_OPERATIONS], 0));
		cr_assert(eq(u64, owner->shares.held[SHARE_WAITS], 0));
		cr_assert(eq(ptr, owner->waiters, NULL));
		n_in_worker += owner->n_in_worker;
	}
	for (uint32_t slot = 0;
	     (allocation = handle_table_next(&broker->registry->allocations, &slot));
	     slot++)
		n_in_worker -= !kind_is_durable(allocation->kind);
	cr_assert(eq(u64, n_in_worker, 0));
	pthread_mutex_unlock(&broker->registry->lock);
	/* A slot goes back just after the end of its op. Readahead keeps a slot. */
	for (int i = 0; i < 5000 && slots_out(broker); i++)
		usleep(1000);
	cr_assert(eq(uint, slots_out(broker), 0));
}

void broker_end(struct broker *broker)
{
	_cleanup_text_ struct text why = TEXT_INIT;

	broker_settle(broker);
	expect_nothing_left(broker);
	cr_assert(eq(int, broker_free(broker, &why), 0), "%s", text_string(&why));
}

void broker_settle(struct broker *broker)
{
	unsigned int n_busy;

	for (int i = 0; i < 20000; i++) {
		pthread_mutex_lock(&broker->registry->lock);
		n_busy = (unsigned int)broker->registry->n_busy;
		for (unsigned int j = 0; j < DEVICES_MAX; j++)
			n_busy += broker->reclaim->n_coming[j];
		pthread_mutex_unlock(&broker->registry->lock);
		/* A slot is given back just after the end of its op. */
		pthread_mutex_lock(&broker->processes->mover.lock);
		n_busy += broker->processes->mover.staging.n_slots -
			  broker->processes->mover.staging.n_free;
		pthread_mutex_unlock(&broker->processes->mover.lock);
		if (!n_busy)
			return;
		usleep(1000);
	}
	cr_fail("%u works never end", n_busy);
}

void worker_signal(struct worker *worker, int signal)
{
	siginfo_t info;
	pid_t pid;

	while ((pid = worker_pid(worker)) == 0)
		usleep(1000);
	kill(pid, signal);
	/* A thread takes the signal and stops the others, which run on until then. */
	if (signal == SIGSTOP)
		waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT);
}

void mover_signal(struct broker *broker, int signal)
{
	worker_signal(&broker->processes->mover, signal);
}

uint64_t driver_free(struct broker *broker)
{
	struct broker_space space;
	struct answer answer;

	broker_space(broker, &nobody_special, answer_expect(&answer));
	cr_assert(eq(int, answer_get(&answer), 0));
	memcpy(&space, answer.bytes, sizeof(space));
	return space.free;
}

/* ---- commands ---- */

struct control *control_open(struct broker *broker, const char *verb)
{
	struct control *control = NULL;
	const struct verb *verbs;
	size_t n;

	verbs = verb_table(&n);
	for (size_t i = 0; i < n; i++) {
		if (strcmp(verbs[i].name, verb) == 0)
			cr_assert(eq(int,
				     control_new(&control, broker, &verbs[i], TOKEN_NONE,
						 &nobody_special),
				     0));
	}
	cr_assert(control != NULL, "no verb %s", verb);
	return control;
}

long control_say(struct control *control, const char *lines)
{
	struct answer answer;
	int error;

	control_write(control, 42, lines, strlen(lines), answer_expect(&answer));
	error = answer_get(&answer);
	return error ? error : (long)answer.length;
}

int command_say(struct broker *broker, const char *verb, const char *format, ...)
{
	struct control *control = control_open(broker, verb);
	char line[512];
	va_list args;
	long r;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	r = control_say(control, line);
	control_free(control);
	return r < 0 ? (int)r : 0;
}

int object_find(struct broker *broker, enum object_type type, struct token in,
		const char *name, struct token *ret_token)
{
	struct object_ref object;
	int r = broker_find(broker, type, in, name, &nobody_special, &object);

	if (r == 0)
		*ret_token = object.token;
	return r;
}

int object_make(struct broker *broker, enum object_type type, const char *name,
		struct token *ret_token)
{
	struct object_ref object;
	int r = broker_create(broker, type, TOKEN_NONE, name, 0755, &nobody_special,
			      &object);

	if (r == 0)
		*ret_token = object.token;
	return r;
}

void module_use_over(struct broker *broker, struct module_use *use)
{
	pthread_mutex_lock(&broker->registry->lock);
	module_use_end(broker, use);
	pthread_mutex_unlock(&broker->registry->lock);
}

struct token allocation_named(struct broker *broker, const char *name)
{
	struct token token = TOKEN_NONE;

	cr_assert(eq(int,
		     object_find(broker, OBJECT_ALLOCATION, TOKEN_NONE, name, &token), 0),
		  "%s", name);
	return token;
}

enum allocation_state allocation_state_of(struct broker *broker, const char *name)
{
	struct token token = allocation_named(broker, name);
	enum allocation_state state;

	pthread_mutex_lock(&broker->registry->lock);
	state = (enum allocation_state)allocation_get(broker->registry, token.slot,
						      token.generation)
			->state;
	pthread_mutex_unlock(&broker->registry->lock);
	return state;
}

int image_write(struct broker *broker, struct token module, const char *text)
{
	struct answer answer;
	struct upload *upload;
	int error;

	cr_assert(eq(int,
		     upload_new(&upload, broker, OBJECT_MODULE, module, &nobody_special),
		     0));
	cr_assert(eq(int, upload_resize(upload, 42, 0), 0));
	cr_assert(eq(int, upload_write(upload, 42, 0, text, strlen(text)), 0));
	upload_flush(upload, 42, answer_expect(&answer));
	error = answer_get(&answer);
	upload_free(upload);
	return error;
}

/* ---- data ---- */

long data_write(struct broker *broker, struct token token, uint64_t offset,
		const void *bytes, size_t length)
{
	struct writer writer = { .token = token };
	struct buffer buffer;
	struct answer answer;
	int error;

	cr_assert(eq(int, broker_buffer_get(broker, &buffer), 0));
	memcpy(buffer.memory + 80, bytes, length);
	broker_write(broker, &writer, &nobody_special, offset, buffer.memory + 80, length,
		     &buffer, answer_expect(&answer));
	error = answer_get(&answer);
	broker_buffer_put(broker, &buffer);
	return error ? error : (long)answer.length;
}

long data_read(struct broker *broker, struct token token, uint64_t offset, void *bytes,
	       size_t length)
{
	struct answer answer;
	int error;

	broker_read(broker, token, &nobody_special, offset, length,
		    answer_expect(&answer));
	error = answer_get(&answer);
	if (error)
		return error;
	memcpy(bytes, answer.bytes, MIN(answer.length, sizeof(answer.bytes)));
	return (long)answer.length;
}

static struct task held[WORKQUEUE_THREADS_MOST];
static unsigned int n_closers;
static sem_t lets_go;

static void wait_held(struct task *task)
{
	(void)task;
	while (sem_wait(&lets_go) < 0)
		;
}

void closers_hold(struct broker *broker)
{
	struct workqueue *closers = &broker->user_lanes[LANE_CLOSES];

	n_closers = closers->n_most;
	sem_init(&lets_go, 0, 0);
	/* A user has one of the threads. */
	for (uid_t i = 0; i < n_closers; i++) {
		held[i].run = wait_held;
		user_lane_add(broker, LANE_CLOSES, 3000 + i, &held[i]);
	}
	for (unsigned int n_held = 0; n_held < n_closers; usleep(1000)) {
		pthread_mutex_lock(&closers->lock);
		n_held = 0;
		for (size_t i = 0; i < ARRAY_SIZE(closers->running); i++)
			n_held += closers->running[i] != NULL;
		pthread_mutex_unlock(&closers->lock);
	}
}

void closers_let_go(void)
{
	for (unsigned int i = 0; i < n_closers; i++)
		sem_post(&lets_go);
}

unsigned int n_own_pidfds(void)
{
	struct dirent *entry;
	DIR *folder = opendir("/proc/self/fdinfo");
	unsigned int n = 0;
	char line[64], path[300];
	FILE *file;
	int pid;

	while ((entry = readdir(folder))) {
		snprintf(path, sizeof(path), "/proc/self/fdinfo/%s", entry->d_name);
		file = fopen(path, "re");
		while (file && fgets(line, sizeof(line), file))
			n += sscanf(line, "Pid: %d", &pid) == 1 && pid == getpid();
		if (file)
			fclose(file);
	}
	closedir(folder);
	return n;
}

/* SPDX-License-Identifier: MIT */
/*
 * Everything at once: four threads give commands and move data on the software GPU
 * while workers are killed. Whatever is answered, each is answered once, and in the end
 * nothing is under way and all memory has come back.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "api/attribute.h"
#include "api/upload.h"
#include "base/refusal.h"
#include "kernels/module_use.h"
#include "model/owner.h"
#include "model/registry.h"
#include "unit/broker_help.h"

#define N_THREADS 4
#define N_STEPS	  400
#define N_NAMES	  12

TestSuite(stress, .timeout = 110);

struct actor {
	struct broker *broker;
	pthread_t thread;
	uint32_t state;
};

static uint32_t draw(struct actor *actor, uint32_t n)
{
	actor->state = actor->state * 1664525 + 1013904223;
	return (uint32_t)(((uint64_t)actor->state * n) >> 32);
}

static void kill_a_worker(struct actor *actor)
{
	struct broker *broker = actor->broker;
	struct owner *owner;
	pid_t pid = 0;

	if (draw(actor, 2)) {
		pid = worker_pid(&broker->processes->mover);
	} else {
		pthread_mutex_lock(&broker->registry->lock);
		owner = broker->registry->owners_by_uid;
		if (owner && owner->worker)
			pid = worker_pid(owner->worker);
		pthread_mutex_unlock(&broker->registry->lock);
	}
	if (pid)
		kill(pid, SIGKILL);
}

/* Writes a line and perhaps interrupts the wait. */
static void say(struct actor *actor, const char *verb, const char *line)
{
	struct control *control = control_open(actor->broker, verb);
	struct answer answer;

	control_write(control, 42, line, strlen(line), answer_expect(&answer));
	(void)answer_get(&answer);
	control_free(control);
}

static void move_data(struct actor *actor, const char *name, bool write)
{
	char bytes[4096] = "";
	struct token token;

	if (object_find(actor->broker, OBJECT_ALLOCATION, TOKEN_NONE, name, &token) < 0)
		return;
	if (write)
		(void)data_write(actor->broker, token, draw(actor, 2000), bytes, 1000);
	else
		(void)data_read(actor->broker, token, draw(actor, 2000), bytes, 4096);
}

static void change_mode(struct actor *actor, const char *name)
{
	struct token token;

	if (object_find(actor->broker, OBJECT_ALLOCATION, TOKEN_NONE, name, &token) < 0)
		return;
	(void)broker_change(actor->broker, OBJECT_ALLOCATION, token, &nobody_special,
			    draw(actor, 2) ? 0600 : 0644, (uid_t)-1, (gid_t)-1);
}

/* Prefetches or advises managed memory, or asks the driver for the placement. */
static void place(struct actor *actor, const char *name)
{
	static const char *const advices[] = { "set_read_mostly",
					       "set_preferred_location cpu",
					       "set_preferred_location device:0",
					       "unset_preferred_location" };
	static const char *const files[] = { "prefetch", "advise" };
	const struct attribute *attribute = attribute_tables[OBJECT_ALLOCATION].rows;
	struct answer answer;
	struct token token;
	char line[128];

	switch (draw(actor, 4)) {
	case 0:
		snprintf(line, sizeof(line), "%s %s offset=%u wait=%u", name,
			 draw(actor, 2) ? "cpu" : "device:0", draw(actor, 8000),
			 draw(actor, 2));
		say(actor, files[0], line);
		break;
	case 1:
		snprintf(line, sizeof(line), "%s %s offset=%u", name,
			 advices[draw(actor, 4)], draw(actor, 8000));
		say(actor, files[1], line);
		break;
	default:
		while (strcmp(attribute->name, "last_prefetch") != 0)
			attribute++;
		if (object_find(actor->broker, OBJECT_ALLOCATION, TOKEN_NONE, name,
				&token) < 0)
			break;
		broker_ask(actor->broker, token, attribute, &nobody_special,
			   answer_expect(&answer));
		(void)answer_get(&answer);
		break;
	}
}

static void step(struct actor *actor)
{
	static const char *const kinds[] = { "device", "direct", "async", "host",
					     "managed" };
	static const char *const sizes[] = { "4K", "700", "1M", "6M" };
	char name[16], other[16], line[128];

	snprintf(name, sizeof(name), "n%u", draw(actor, N_NAMES));
	snprintf(other, sizeof(other), "n%u", draw(actor, N_NAMES));
	switch (draw(actor, 12)) {
	case 0:
	case 1:
		snprintf(line, sizeof(line), "%s %s kind=%s%s", name,
			 sizes[draw(actor, 4)], kinds[draw(actor, 5)],
			 draw(actor, 8) ? "" : " until=close");
		say(actor, "alloc", line);
		break;
	case 2:
		say(actor, "free", name);
		break;
	case 3:
		snprintf(line, sizeof(line), "%s u8:7 wait=%u", name, draw(actor, 2));
		say(actor, "fill", line);
		break;
	case 4:
		snprintf(line, sizeof(line), "%s from=%s length=700 wait=%u", name, other,
			 draw(actor, 2));
		say(actor, "copy", line);
		break;
	case 5:
		say(actor, "synchronize", "default");
		break;
	case 6:
		change_mode(actor, name);
		break;
	case 7:
	case 8:
		place(actor, name);
		break;
	default:
		move_data(actor, name, draw(actor, 2));
		break;
	}
	if (draw(actor, 60) == 0)
		kill_a_worker(actor);
}

static void *act(void *userdata)
{
	for (int i = 0; i < N_STEPS; i++)
		step(userdata);
	return NULL;
}

Test(stress, nothing_is_left_after_workers_were_killed_at_random)
{
	static const struct managed_totals none;
	struct broker *broker = broker_start("64M", NULL);
	uint64_t total = driver_free(broker);
	struct actor actors[N_THREADS];
	char name[16];

	for (uint32_t i = 0; i < N_THREADS; i++) {
		actors[i] = (struct actor){ .broker = broker, .state = i * 7919 + 1 };
		pthread_create(&actors[i].thread, NULL, act, &actors[i]);
	}
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(actors[i].thread, NULL);
	for (int i = 0; i < N_NAMES; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		(void)command_say(broker, "free", "%s", name);
	}
	broker_settle(broker);
	cr_assert(eq(u64, broker->registry->n_allocations, 0));
	cr_assert(eq(u64, broker->registry->bytes, 0));
	cr_assert(eq(int, memcmp(&broker->registry->managed, &none, sizeof(none)), 0));
	broker_end(broker);

	broker = broker_start("64M", NULL);
	cr_assert(eq(u64, driver_free(broker), total));
	broker_end(broker);
}

/* ---- modules ---- */

static const char image[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
			    ".visible .entry f(.param .u32 n)\n{\n\tret;\n}\n";

static int module_find_token(struct actor *actor, const char *name,
			     struct token *ret_token)
{
	return object_find(actor->broker, OBJECT_MODULE, TOKEN_NONE, name, ret_token);
}

/* Writes an image, whole or cut off, and closes the file once or twice. */
static void load_module(struct actor *actor, struct token module)
{
	size_t length = draw(actor, 4) ? sizeof(image) - 1 : draw(actor, sizeof(image));
	struct answer answer;
	struct upload *upload;

	if (upload_new(&upload, actor->broker, OBJECT_MODULE, module, &nobody_special) <
	    0)
		return;
	(void)upload_resize(upload, 42, 0);
	(void)upload_write(upload, 42, 0, image, length);
	for (uint32_t n = draw(actor, 2); n < 2; n++) {
		upload_flush(upload, 42, answer_expect(&answer));
		(void)answer_get(&answer);
	}
	upload_free(upload);
}

/* Reads the module's attributes, or holds the module as a launch does. */
static void use_module(struct actor *actor, struct token module, const char *name)
{
	const struct attribute *attribute = &attribute_tables[OBJECT_FUNCTION].rows[2];
	struct broker *broker = actor->broker;
	struct refusal refusal;
	struct answer answer;
	struct module_use use;
	struct token function;
	int r;

	if (draw(actor, 2)) {
		if (object_find(broker, OBJECT_FUNCTION, module, "f", &function) < 0)
			return;
		broker_ask(broker, function, attribute, &nobody_special,
			   answer_expect(&answer));
		(void)answer_get(&answer);
		return;
	}
	pthread_mutex_lock(&broker->registry->lock);
	r = module_use_begin(broker, &nobody_special, name, "f", &use, &refusal);
	pthread_mutex_unlock(&broker->registry->lock);
	if (r < 0)
		return;
	usleep(draw(actor, 300));
	module_use_over(broker, &use);
}

static void step_module(struct actor *actor)
{
	struct token module;
	char name[16];

	snprintf(name, sizeof(name), "m%u", draw(actor, 3));
	if (module_find_token(actor, name, &module) < 0)
		(void)object_make(actor->broker, OBJECT_MODULE, name, &module);
	else if (draw(actor, 8) == 0)
		(void)broker_remove(actor->broker, OBJECT_MODULE, TOKEN_NONE, name,
				    &nobody_special);
	else if (draw(actor, 2))
		load_module(actor, module);
	else
		use_module(actor, module, name);
	if (draw(actor, 40) == 0)
		kill_a_worker(actor);
}

static void *act_on_modules(void *userdata)
{
	for (int i = 0; i < N_STEPS; i++)
		step_module(userdata);
	return NULL;
}

Test(stress, no_module_is_left_after_workers_were_killed_at_random)
{
	struct broker *broker = broker_start("64M", NULL);
	struct actor actors[N_THREADS];
	char name[16];

	for (uint32_t i = 0; i < N_THREADS; i++) {
		actors[i] = (struct actor){ .broker = broker, .state = i * 7919 + 1 };
		pthread_create(&actors[i].thread, NULL, act_on_modules, &actors[i]);
	}
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(actors[i].thread, NULL);
	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		(void)broker_remove(broker, OBJECT_MODULE, TOKEN_NONE, name,
				    &nobody_special);
	}
	broker_settle(broker);
	cr_assert(eq(u64, broker->registry->n_modules, 0));
	cr_assert(eq(u32, broker->registry->functions.n_used, 0));
	broker_end(broker);
}

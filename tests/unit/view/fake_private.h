/* SPDX-License-Identifier: MIT */
/* The parts of the broker in memory. All fields of struct broker are under its lock. */
#pragma once

#include "api/attribute.h"
#include "api/control_file.h"
#include "api/upload.h"
#include "base/def.h"

#include <pthread.h>

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
	uint32_t backing;
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

struct object *fake_resolve(struct broker *broker, enum object_type type,
			    struct token token);
struct object *fake_find(struct broker *broker, enum object_type type, const char *name);
void fake_changed(struct broker *broker, const char *event, const char *name);
struct object *fake_add(struct broker *broker, enum object_type type, const char *name,
			const struct caller *caller, uint64_t size);
void fake_drop(struct object *object);
void fake_wake_readers(struct broker *broker);

/* ---- jobs; without the lock ---- */

void fake_answer(struct broker *broker, struct completion *wait, int error, void *bytes,
		 size_t length);

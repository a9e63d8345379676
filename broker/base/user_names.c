/* SPDX-License-Identifier: MIT */
#include "base/user_names.h"

#include <pthread.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/hash.h"

#define ENTRY_SIZE 16384 /* of the user database */
#define KEPT_MS	   60000 /* a name shown later than this is looked up anew */

struct user_name {
	uid_t uid;
	char *name;	  /* NULL: none known */
	int64_t until_ms; /* looked up anew after that */
	bool wanted;	  /* in the queue, or being looked up */
	UT_hash_handle hh;
	struct user_name *prev, *next; /* in the queue */
};

/* The thread and the maker have a reference each, since neither waits for the other. */
struct user_names {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct user_name *by_uid, *queue;
	unsigned int n_refs;
	bool ending;
};

static void name_free(struct user_names *names, struct user_name *name)
{
	HASH_DEL(names->by_uid, name);
	free(name->name);
	free(name);
}

/* With the lock held; releases the lock. */
static void names_unref(struct user_names *names)
{
	struct user_name *name, *safe;
	bool last = --names->n_refs == 0;

	pthread_mutex_unlock(&names->lock);
	if (!last)
		return;
	HASH_ITER (hh, names->by_uid, name, safe)
		name_free(names, name);
	pthread_cond_destroy(&names->wake);
	pthread_mutex_destroy(&names->lock);
	free(names);
}

static struct user_name *name_find(const struct user_names *names, uid_t uid)
{
	struct user_name *name;

	HASH_FIND(hh, names->by_uid, &uid, sizeof(uid), name);
	return name;
}

/* Returns: the user's name, to be freed; NULL: none. */
static char *look_up(uid_t uid)
{
	_cleanup_text_ struct text name = TEXT_INIT;
	struct passwd entry, *found = NULL;
	char bytes[ENTRY_SIZE];

	if (getpwuid_r(uid, &entry, bytes, sizeof(bytes), &found) != 0 || !found)
		return NULL;
	/* A word of a line, which people read on terminals. */
	if (strpbrk(found->pw_name, " \t"))
		text_add_word(&name, found->pw_name);
	else
		text_add_plain(&name, found->pw_name);
	return text_failed(&name) ? NULL : strdup(text_string(&name));
}

/* Looks up the first of the queue. With the lock held, which is released meanwhile. */
static void names_look_up(struct user_names *names)
{
	struct user_name *name = names->queue;
	uid_t uid = name->uid;
	char *found;

	DL_DELETE(names->queue, name);
	pthread_mutex_unlock(&names->lock);
	found = look_up(uid);
	pthread_mutex_lock(&names->lock);
	name = name_find(names, uid);
	if (!name) { /* dropped meanwhile */
		free(found);
		return;
	}
	free(name->name);
	name->name = found;
	name->until_ms = clock_ms() + KEPT_MS;
	name->wanted = false;
}

static void *names_run(void *userdata)
{
	struct user_names *names = userdata;

	pthread_mutex_lock(&names->lock);
	while (!names->ending) {
		if (names->queue)
			names_look_up(names);
		else
			pthread_cond_wait(&names->wake, &names->lock);
	}
	names_unref(names);
	return NULL;
}

struct user_names *user_names_new(void)
{
	struct user_names *names = calloc(1, sizeof(*names));
	pthread_attr_t detached;
	pthread_t thread;
	int error;

	if (!names)
		return NULL;
	pthread_mutex_init(&names->lock, NULL);
	clock_cond_init(&names->wake);
	names->n_refs = 2;
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	error = pthread_create(&thread, &detached, names_run, names);
	pthread_attr_destroy(&detached);
	if (!error)
		return names;
	pthread_mutex_lock(&names->lock);
	names->n_refs = 1;
	names_unref(names);
	return NULL;
}

struct user_names *user_names_free(struct user_names *names)
{
	if (!names)
		return NULL;
	pthread_mutex_lock(&names->lock);
	names->ending = true;
	pthread_cond_signal(&names->wake);
	names_unref(names);
	return NULL;
}

/* With the lock held. NULL: no memory. */
static struct user_name *name_want(struct user_names *names, uid_t uid)
{
	struct user_name *name = name_find(names, uid);

	if (!name) {
		name = calloc(1, sizeof(*name));
		if (!name)
			return NULL;
		name->uid = uid;
		HASH_ADD(hh, names->by_uid, uid, sizeof(name->uid), name);
	}
	if (!name->wanted && clock_ms() >= name->until_ms) {
		name->wanted = true;
		DL_APPEND(names->queue, name);
		pthread_cond_signal(&names->wake);
	}
	return name;
}

void user_names_want(struct user_names *names, uid_t uid)
{
	pthread_mutex_lock(&names->lock);
	(void)name_want(names, uid);
	pthread_mutex_unlock(&names->lock);
}

void user_names_show(struct user_names *names, uid_t uid, struct text *text)
{
	const struct user_name *name;

	pthread_mutex_lock(&names->lock);
	name = name_want(names, uid);
	if (name && name->name)
		text_printf(text, "%s", name->name);
	else
		text_printf(text, "%u", uid);
	pthread_mutex_unlock(&names->lock);
}

void user_names_drop(struct user_names *names, uid_t uid)
{
	struct user_name *name, *queued;

	pthread_mutex_lock(&names->lock);
	name = name_find(names, uid);
	if (name) {
		DL_FOREACH (names->queue, queued) {
			if (queued == name)
				break;
		}
		if (queued)
			DL_DELETE(names->queue, name);
		name_free(names, name);
	}
	pthread_mutex_unlock(&names->lock);
}

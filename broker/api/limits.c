/* SPDX-License-Identifier: MIT */
#include "api/limits.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/attribute_view.h"
#include "api/limits_file.h"
#include "api/object_fail.h"
#include "base/completion.h"
#include "base/handle_table.h"
#include "base/refusal.h"
#include "control/line.h"
#include "model/journal.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/save.h"
#include "process/broker.h"

#define WRITE_MAX 4096

/* ---- the text ---- */

void limit_print(struct text *text, uint64_t max)
{
	if (max == LIMIT_NONE)
		text_printf(text, "max");
	else
		text_printf(text, "%llu", (unsigned long long)max);
}

/* The keys of a machine: those of devices that it does not have are left out. */
static bool has_key(const struct broker *broker, int share)
{
	return share >= SHARE_HOST ||
	       share - SHARE_DEVICE < (int)broker->registry->n_devices;
}

static void show(const struct broker *broker, struct text *text,
		 uint64_t (*value)(const struct owner *owner, enum share share),
		 const struct owner *owner)
{
	for (int i = 0; i < N_LIMITS; i++) {
		if (!has_key(broker, i))
			continue;
		text_printf(text, "%s ",
			    share_key((enum share)i, (char[SHARE_KEY_SIZE]){ 0 }));
		limit_print(text, value(owner, (enum share)i));
		text_add(text, "\n", 1);
	}
}

static uint64_t current(const struct owner *owner, enum share share)
{
	return owner->shares.held[share];
}

static uint64_t n_refused(const struct owner *owner, enum share share)
{
	return owner->shares.n_refused[share];
}

void limits_show_max(const struct attribute_view *view, struct text *text)
{
	show(view->broker, text, share_limit, view->owner);
}

void limits_show_current(const struct attribute_view *view, struct text *text)
{
	show(view->broker, text, current, view->owner);
}

void limits_show_peak(const struct attribute_view *view, struct text *text)
{
	show(view->broker, text, share_peak, view->owner);
}

void limits_show_events(const struct attribute_view *view, struct text *text)
{
	show(view->broker, text, n_refused, view->owner);
}

/* The limits of an owner who has none. */
void limits_show_default(const struct attribute_view *view, struct text *text)
{
	const struct owner nobody = { .shares.defaults =
					      &view->broker->registry->limits };

	show(view->broker, text, share_limit, &nobody);
}

/* ---- parsing ---- */

static int refuse_key(const char *key, unsigned int n_devices, struct refusal *refusal)
{
	char devices[32] = "device:0";

	if (n_devices > 1)
		snprintf(devices, sizeof(devices), "device:0 to device:%u",
			 n_devices - 1);
	return refuse(refusal, EINVAL,
		      "'%.64s' has no limit; keys are %s, host, allocations, modules, "
		      "streams, leases, operations",
		      key, devices);
}

int limit_parse(const char *key, const char *value, unsigned int n_devices,
		struct limit *ret_limit, struct refusal *refusal)
{
	char name[SHARE_KEY_SIZE];
	int share = 0;

	while (share < N_LIMITS && strcmp(share_key((enum share)share, name), key) != 0)
		share++;
	if (share == N_LIMITS ||
	    (share < SHARE_HOST && share - SHARE_DEVICE >= (int)n_devices))
		return refuse_key(key, n_devices, refusal);
	*ret_limit = (struct limit){ (enum share)share, LIMIT_NONE, false };
	if (strcmp(value, "max") == 0)
		return 0;
	if (strcmp(value, "default") == 0) {
		ret_limit->is_default = true;
		return 0;
	}
	if (share_is_bytes((enum share)share))
		return line_size(value, NULL, &ret_limit->max, refusal);
	return line_number(value, NULL, &ret_limit->max, refusal);
}

void limit_set(struct limits *limits, const struct limit *limit, bool own)
{
	const uint32_t bit = (uint32_t)1 << limit->share;

	if (!own || limit->is_default)
		limits->own &= ~bit;
	else if (!(limits->given & bit))
		limits->own |= bit;
	limits->given = limit->is_default ? limits->given & ~bit : limits->given | bit;
	limits->max[limit->share] = limit->max;
}

/* Applies `KEY VALUE [KEY VALUE]...`, or `default` for all keys. text is cut up. */
static int limits_parse(struct limits *limits, char *text, unsigned int n_devices,
			bool own, struct refusal *refusal)
{
	static const char blanks[] = " \t\n";
	char *rest, *key = strtok_r(text, blanks, &rest), *value;
	struct limit limit;
	int r = 0;

	if (!key)
		return refuse(refusal, EINVAL,
			      "a limit is written as KEY VALUE, such as: device:0 20GiB");
	if (strcmp(key, "default") == 0 && !strtok_r(NULL, blanks, &rest)) {
		limits->given = limits->own = 0;
		return 0;
	}
	for (; r == 0 && key; key = strtok_r(NULL, blanks, &rest)) {
		value = strtok_r(NULL, blanks, &rest);
		if (!value)
			return refuse(refusal, EINVAL,
				      "'%.64s' lacks a value: a size, a number, max or "
				      "default",
				      key);
		r = limit_parse(key, value, n_devices, &limit, refusal);
		if (r == 0)
			limit_set(limits, &limit, own);
	}
	return r;
}

/* ---- writing ---- */

/*
 * Takes back a value of root's: a default that is lower today may be raised tomorrow, and
 * root's word for this owner would be gone.
 */
static int check_taken_back(const struct owner *owner, const struct limits *limits,
			    struct refusal *refusal)
{
	const struct limits *before = &owner->shares.limits;
	const uint32_t gone = before->given & ~before->own & ~limits->given;

	if (!gone)
		return 0;
	return refuse(
		refusal, EPERM,
		"root has set the limit of uid %u for %s: you may lower it, and only "
		"root takes it back",
		owner->uid,
		share_key((enum share)__builtin_ctz(gone), (char[SHARE_KEY_SIZE]){ 0 }));
}

/* The owner's own limits may only go down, except by root. Under registry.lock. */
static int check_lower(const struct owner *owner, const struct limits *limits,
		       const struct caller *caller, struct refusal *refusal)
{
	struct owner after = *owner;

	if (caller->uid == 0)
		return 0;
	if (caller->uid != owner->uid)
		return refuse(refusal, EPERM, "only root sets the limits of uid %u",
			      owner->uid);
	after.shares.limits = *limits;
	for (int i = 0; i < N_LIMITS; i++) {
		uint64_t max = share_limit(owner, (enum share)i);

		if (share_limit(&after, (enum share)i) > max)
			return refuse(
				refusal, EPERM,
				"the limit of uid %u for %s is %s: you may lower "
				"it, and only root raises it",
				owner->uid,
				share_key((enum share)i, (char[SHARE_KEY_SIZE]){ 0 }),
				share_text((enum share)i, max, (char[64]){ 0 }));
	}
	return check_taken_back(owner, limits, refusal);
}

/* owner NULL: the defaults. Under registry.lock. */
static int change(struct broker *broker, struct owner *owner, const struct caller *caller,
		  char *text, struct refusal *refusal)
{
	struct registry *registry = broker->registry;
	struct limits *place = owner ? &owner->shares.limits : &registry->limits;
	struct limits limits = *place;
	int r;

	if (!owner && caller->uid != 0)
		return refuse(refusal, EPERM, "only root sets the limits of all owners");
	r = limits_parse(&limits, text, registry->n_devices, caller->uid != 0, refusal);
	if (r == 0 && owner)
		r = check_lower(owner, &limits, caller, refusal);
	if (r < 0)
		return r;
	*place = limits;
	if (owner)
		owner_save(registry, owner);
	else
		registry_save(registry);
	return 0;
}

static void answer_refused(struct broker *broker, const struct caller *caller,
			   const char *path, const struct refusal *refusal,
			   struct completion *wait)
{
	journal_fail(broker->journal, caller->uid, caller->pid, path, refusal->error,
		     refusal->sentence);
	wait->done(wait, -refusal->error, NULL, 0);
}

static void store(struct broker *broker, const struct token *token,
		  const struct caller *caller, const char *value, size_t length,
		  struct completion *wait)
{
	_cleanup_free_ char *text = strndup(value, length);
	char path[64] = "owners/default/max";
	struct owner *owner = NULL;
	struct refusal refusal;
	int r = 0;

	pthread_mutex_lock(&broker->registry->lock);
	if (token)
		owner = handle_table_get(&broker->registry->owners, token->slot,
					 token->generation);
	if (owner)
		snprintf(path, sizeof(path), "owners/%u/max", owner->uid);
	if (length > WRITE_MAX)
		r = refuse(&refusal, E2BIG, "limits of more than %d bytes", WRITE_MAX);
	else if (!text)
		r = refuse(&refusal, ENOMEM, "no memory in the broker");
	else if (token && !owner)
		r = refuse(&refusal, ESTALE, "the owner has gone");
	else
		r = change(broker, owner, caller, text, &refusal);
	if (r == 0)
		journal_event(broker->journal, "change %.*s limits uid=%u",
			      (int)(strlen(path) - strlen("/max")), path, caller->uid);
	pthread_mutex_unlock(&broker->registry->lock);
	if (r < 0)
		answer_refused(broker, caller, path, &refusal, wait);
	else if (broker->limits_file)
		limits_file_save(broker, caller, path, length, wait);
	else
		wait->done(wait, 0, NULL, length);
}

void limits_store(struct broker *broker, struct token token, const struct caller *caller,
		  const char *value, size_t length, struct completion *wait)
{
	store(broker, &token, caller, value, length, wait);
}

void limits_store_default(struct broker *broker, struct token token,
			  const struct caller *caller, const char *value, size_t length,
			  struct completion *wait)
{
	(void)token;
	store(broker, NULL, caller, value, length, wait);
}

/* ---- owners to come ---- */

int limits_create_owner(struct broker *broker, const char *name,
			const struct caller *caller, struct token *ret_token)
{
	struct refusal refusal;
	struct owner *owner;
	uid_t uid;
	int r = 0;

	pthread_mutex_lock(&broker->registry->lock);
	if (caller->uid != 0)
		r = refuse(&refusal, EPERM, "only root makes owners");
	else if (uid_parse(name, &uid) < 0)
		r = refuse(&refusal, EINVAL,
			   "'%.64s' is not a user's number: mkdir owners/$(id -u USER)",
			   name);
	else if (owner_find(broker->registry, uid))
		r = refuse(&refusal, EEXIST, "owner %u is there already", uid);
	if (r == 0) {
		owner = owner_make(broker->registry, uid);
		if (owner)
			*ret_token =
				(struct token){ owner->slot, owner->slot_generation };
		else
			r = refuse(&refusal, ENOMEM, "no memory in the broker");
	}
	pthread_mutex_unlock(&broker->registry->lock);
	return r < 0 ? object_refuse(broker, caller, OBJECT_OWNER, name, &refusal) : 0;
}

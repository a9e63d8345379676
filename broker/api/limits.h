/* SPDX-License-Identifier: MIT */
/*
 * Limits as files: `max`, `current`, `peak` and `max_events` of an owner, a line for each
 * key, as the dmem controller of cgroups has them. model/shares.h counts and refuses.
 *
 * Root sets limits. An owner may lower the own ones, and only root raises them again, or
 * takes back a value that root gave. A key without a value of the owner's own has the value
 * of owners/default/max.
 */
#pragma once

#include <stddef.h>

#include "model/object.h"
#include "model/shares.h"

struct attribute_view;
struct broker;
struct caller;
struct completion;
struct refusal;
struct text;

/* A value of a key; `default`: it has none of its own. */
struct limit {
	enum share share;
	uint64_t max;
	bool is_default;
};

/*
 * Parses a key and a value. n_devices: how many there may be.
 * Returns: 0; -EINVAL, -EOVERFLOW.
 */
int limit_parse(const char *key, const char *value, unsigned int n_devices,
		struct limit *ret_limit, struct refusal *refusal);
/* own: by the owner. What root has given stays root's, even when the owner lowers it. */
void limit_set(struct limits *limits, const struct limit *limit, bool own);

/* Appends a value: a number, or `max`. */
void limit_print(struct text *text, uint64_t max);

/* The files. */
void limits_show_max(const struct attribute_view *view, struct text *text);
void limits_show_current(const struct attribute_view *view, struct text *text);
void limits_show_peak(const struct attribute_view *view, struct text *text);
void limits_show_events(const struct attribute_view *view, struct text *text);
void limits_show_default(const struct attribute_view *view, struct text *text);

/* Writes to them; see struct attribute. */
void limits_store(struct broker *broker, struct token token, const struct caller *caller,
		  const char *value, size_t length, struct completion *wait);
void limits_store_default(struct broker *broker, struct token token,
			  const struct caller *caller, const char *value, size_t length,
			  struct completion *wait);

/* mkdir owners/UID, so that a user has limits before the first request. */
int limits_create_owner(struct broker *broker, const char *name,
			const struct caller *caller, struct token *ret_token);

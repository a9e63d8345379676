/* SPDX-License-Identifier: MIT */
/* Failures about an object as a whole: lines of `errors` for its folder. */
#pragma once

#include "model/object.h"

struct broker;
struct caller;
struct refusal;

/* error is positive. Returns: -error. */
int object_fail(struct broker *broker, const struct caller *caller, enum object_type type,
		const char *name, int error, const char *sentence);
int object_refuse(struct broker *broker, const struct caller *caller,
		  enum object_type type, const char *name, const struct refusal *refusal);

/* SPDX-License-Identifier: MIT */
#pragma once

#include "api/broker.h"

struct registry;

/* As broker_stat(), for whoever has registry.lock. */
int object_stat_held(struct registry *registry, enum object_type type, struct token token,
		     struct object_stat *ret_stat);

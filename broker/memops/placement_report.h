/* SPDX-License-Identifier: MIT */
/* What advise and last_prefetch show. */
#pragma once

#include "base/wait.h"
#include "model/access.h"
#include "model/object.h"

struct broker;

/* Of managed memory: what the driver says of its ranges. */
void ask_last_prefetch(struct broker *broker, struct token token,
		       const struct caller *caller, struct wait *wait);
void state_advise(struct broker *broker, struct token token, const struct caller *caller,
		  struct wait *wait);

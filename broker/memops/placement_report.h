/* SPDX-License-Identifier: MIT */
/* Contents of the files advise and last_prefetch. */
#pragma once

struct broker;
struct caller;
struct completion;
struct token;

/* Asks the driver about the ranges of managed memory. */
void ask_last_prefetch(struct broker *broker, struct token token,
		       const struct caller *caller, struct completion *wait);
void state_advise(struct broker *broker, struct token token, const struct caller *caller,
		  struct completion *wait);

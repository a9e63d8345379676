/* SPDX-License-Identifier: MIT */
/* The verbs, with a file for each. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct allocation;
struct broker;
struct caller;
struct command;
struct completion;
struct refusal;
struct text;
struct token;

void verb_advise(struct command *command);
void verb_alloc(struct command *command);
void verb_attach(struct command *command);
void verb_copy(struct command *command);
void verb_fill(struct command *command);
void verb_free(struct command *command);
void verb_launch(struct command *command);
void verb_load(struct command *command);
void verb_publish(struct command *command);
void verb_reset(struct command *command);
void verb_prefetch(struct command *command);
void verb_save(struct command *command);
void verb_synchronize(struct command *command);

/* ---- verb_alloc.c ---- */

/* `writers` or `readers`: the users who may lease device memory. Returns: 0; -EINVAL. */
int line_map(const char *word, bool *ret_readers, struct refusal *refusal);

/* Checks a tag, which is printed unchanged. Returns: 0; -EINVAL. */
int line_tag(const char *word, struct refusal *refusal);

/* ---- verb_attach.c ---- */

/*
 * line_attach() parses `global`, `host` and, if most is ATTACH_SINGLE, `single`;
 * attach_check() checks that a device supports the attachment. Returns: 0; -EINVAL;
 * -EOPNOTSUPP.
 */
int line_attach(const char *word, unsigned int most, uint8_t *ret_attach,
		struct refusal *refusal);
int attach_check(const struct broker *broker, uint32_t device, uint8_t attach,
		 struct refusal *refusal);

/* `global`, `host` or `single STREAM`. Under registry.lock. */
void text_attach(struct text *text, const struct allocation *allocation);

/* Shows the attachment known to the broker. */
void state_attach(struct broker *broker, struct token token, const struct caller *caller,
		  struct completion *wait);

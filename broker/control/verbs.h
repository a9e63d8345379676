/* SPDX-License-Identifier: MIT */
/* What the verbs do, a file each. */
#pragma once

#include "control/command.h"

void verb_advise(struct command *command);
void verb_alloc(struct command *command);
void verb_attach(struct command *command);
void verb_copy(struct command *command);
void verb_fill(struct command *command);
void verb_free(struct command *command);
void verb_launch(struct command *command);
void verb_reset(struct command *command);
void verb_prefetch(struct command *command);
void verb_synchronize(struct command *command);

/* ---- free.c ---- */

/*
 * Takes an allocation out of the tree; its memory is given back after its last use. With
 * registry.lock held, which it lets go of.
 */
void allocation_release(struct broker *broker, struct allocation *allocation);

/* Goes on with the op of a freed allocation whose last lease has ended. No lock held. */
void allocation_resume_release(struct op *op);

/* Gives a block back once nobody has it mapped; then done, if any. No lock held. */
void block_give_back(struct broker *broker, struct owner *owner, struct block *block,
		     void (*done)(void *userdata), void *userdata);

/* Has a block unmapped in the workers of others than its owner; then done. Likewise. */
void block_withdraw(struct broker *broker, struct block *block,
		    void (*done)(void *userdata), void *userdata);

/* ---- alloc.c ---- */

/* `writers` or `readers`: who may lease device memory. Returns: 0; -EINVAL. */
int line_map(const char *word, bool *ret_readers, struct refusal *refusal);

/* Memory has come back: allocations that waited for it are tried again. No lock held. */
void alloc_retry_parked(struct broker *broker, uint32_t device);

/* ---- change.c ---- */

/*
 * Moves an allocation that shares a block with others to one of its own; then wait is
 * done. With registry.lock held, which it lets go of.
 */
void allocation_move_out(struct broker *broker, struct allocation *allocation,
			 const struct caller *caller, struct wait *wait);

/* ---- attach.c ---- */

/*
 * `global`, `host` and, where most is ATTACH_SINGLE, `single`, and whether a device can
 * have it. Returns: 0; -EINVAL; -EOPNOTSUPP.
 */
int line_attach(const char *word, unsigned int most, uint8_t *ret_attach,
		struct refusal *refusal);
int attach_check(const struct broker *broker, uint32_t device, uint8_t attach,
		 struct refusal *refusal);

/* `global`, `host` or `single STREAM`. Under registry.lock. */
void text_attach(struct text *text, const struct allocation *allocation);

/* ---- managed.c ---- */

/* SPDX-License-Identifier: MIT */
/*
 * The texts in `tensors` of allocations: a descriptor each, of which the keeper has a
 * copy. model/tensors.h checks the text.
 */
#pragma once

#include <stdint.h>

struct allocation;
struct broker;
struct caller;
struct refusal;
struct tensors;
struct tensors_record;

/*
 * A text to come, charged to the caller before any memory is taken. Under registry.lock.
 * Returns: 0; -EDQUOT, -EMFILE, -ENOMEM with a refusal. *ret_tensors has a reference.
 */
int tensors_new(struct broker *broker, const struct caller *caller, uint64_t size,
		struct tensors **ret_tensors, struct refusal *refusal);

/*
 * Gives the keeper a copy of the text. No lock held. Returns: 0; -EMFILE, -ENOMEM with a
 * refusal.
 */
int tensors_keep(const struct broker *broker, struct tensors *tensors,
		 struct refusal *refusal);

struct tensors *tensors_ref(struct tensors *tensors);

/* The last reference ends the text. Takes NULL. Returns: NULL. Under registry.lock. */
struct tensors *tensors_unref(struct broker *broker, struct tensors *tensors);

/*
 * Puts the text (NULL: none) in place of the old one; takes the reference. Saves both.
 * allocation_make_rare() has been called, before a first text.
 */
void tensors_set(struct broker *broker, struct allocation *allocation,
		 struct tensors *tensors);

/*
 * Makes a text of its record. Takes fd. Under registry.lock, for the start of a broker.
 * Returns: NULL: no memory.
 */
struct tensors *tensors_restore(struct broker *broker, uint32_t index,
				const struct tensors_record *record, int fd);

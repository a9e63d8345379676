/* SPDX-License-Identifier: MIT */
/* The questions of one link that have no answer yet, found by the id on the wire. */
#pragma once

#include "base/def.h"

struct ask;
struct ask_slot;

struct ask_table {
	struct ask_slot *slots;
	uint32_t n_slots;
	uint32_t free; /* first free slot, n_slots when none is */
	uint32_t n_open;
};

#define ASK_TABLE_INIT     \
	(struct ask_table) \
	{                  \
		0          \
	}

/* Asserts that the table is empty. */
void ask_table_deinit(struct ask_table *table);

/* Adds a question and sets its request's id. Returns: 0; -ENOMEM. */
int ask_table_add(struct ask_table *table, struct ask *ask);

/* Notes that the worker knows the id from now on. */
void ask_table_set_sent(struct ask_table *table, uint64_t id);

/* The question of that id; NULL where none is open, or it was not sent yet. */
struct ask *ask_table_find(const struct ask_table *table, uint64_t id);

/* Takes out the question of that id, sent or not, which must be in the table. */
void ask_table_remove(struct ask_table *table, uint64_t id);

/* Takes out any question, NULL when the table is empty. */
struct ask *ask_table_pop(struct ask_table *table);

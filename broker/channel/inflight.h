/* SPDX-License-Identifier: MIT */
/* The open requests of a link, found by the id on the wire. */
#pragma once

#include "base/def.h"

struct ask;
struct ask_slot;

struct ask_table {
	struct ask_slot *slots;
	uint32_t n_slots;
	uint32_t free; /* first free slot; n_slots when there is none */
	uint32_t n_open;
	uint32_t first; /* no slot below is taken */
};

#define ASK_TABLE_INIT     \
	(struct ask_table) \
	{                  \
		0          \
	}

/* Asserts that the table is empty. */
void ask_table_deinit(struct ask_table *table);

/* Adds a request and sets its id. Returns: 0; -ENOMEM. */
int ask_table_add(struct ask_table *table, struct ask *ask);

/* Notes that the worker knows the id. */
void ask_table_set_sent(struct ask_table *table, uint64_t id);

/* The request with this id; NULL when there is none, or it has not been sent. */
struct ask *ask_table_find(const struct ask_table *table, uint64_t id);

/* Removes the request with this id, sent or not; it must be in the table. */
void ask_table_remove(struct ask_table *table, uint64_t id);

/* Removes any request; NULL when the table is empty. */
struct ask *ask_table_pop(struct ask_table *table);

/* SPDX-License-Identifier: MIT */
/*
 * The names of a folder: a hash table of entries, linked through the entries themselves.
 *
 * A name costs one pointer in its entry and about half of one in the table; a general
 * table takes seven, and there are a million names. Adding a name never fails once room
 * is reserved, and takes about as long in a table of any size.
 */
#pragma once

#include <stdint.h>

struct entry;

struct name_table {
	struct entry **chains; /* linked by entry->next; NULL: no room yet */
	uint32_t n_chains;     /* 0: no room yet */
	uint32_t n_room;       /* chains that there is memory for */
	uint32_t n_names;
	struct name_queue *queue; /* from name_table_begin() on; else NULL */
};

/* Makes room for any number of names. Returns: 0; -ENOMEM. */
int name_table_reserve(struct name_table *table);

/*
 * Makes room for n names that come one after another, while none is looked for: until
 * name_table_settle() they are linked many at a time, so that the processor waits for the
 * memory of all of them at once. Returns: 0; -ENOMEM.
 */
int name_table_begin(struct name_table *table, uint32_t n);
void name_table_settle(struct name_table *table);

/* There is room, and the name of the entry is free. */
void name_table_add(struct name_table *table, struct entry *entry);

void name_table_remove(struct name_table *table, struct entry *entry);

/* NULL: the name is free. */
struct entry *name_table_find(const struct name_table *table, const char *name);

/* All entries, in any order; free() it. NULL: there is none, or no memory. */
struct entry **name_table_list(const struct name_table *table);

/* The table is empty. */
void name_table_deinit(struct name_table *table);

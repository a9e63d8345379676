/* SPDX-License-Identifier: MIT */
/*
 * The records: a dead broker's knowledge of its objects, for the next broker.
 *
 * Records lie in a memfd, held by the keeper, too. They survive the death of the broker
 * at any instruction, but no loss of power: the stores of a thread are in memory in
 * program order up to where the thread stopped, so no flush, no checksum and no log is
 * needed. Records change in place, all of a group or none: the new bytes go to the redo
 * area, one store commits the group, then the bytes are copied to their places. The next
 * broker finishes an interrupted copy.
 *
 * Records are written under the lock of their objects. The lock here is taken last, but
 * for the locks of `errors` and `events` (model/journal.h), of the reaper and of
 * keep_forget().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/types.h"

struct records;
struct token_ends; /* base/token_ends.h */
struct text;

/* Returns: 0; -ENOMEM, -EMFILE. */
int records_new(struct records **ret_records);

/*
 * The records of a dead broker, copied to a memfd of their own: the old ones are never
 * changed. Every index and generation stays. fd is borrowed.
 *
 * Returns: 0; -EINVAL with a sentence: these are no records that this program can use;
 * -ENOMEM, -EMFILE.
 */
int records_open(struct records **ret_records, int fd, struct text *why);

/* Takes NULL. Returns: NULL. */
struct records *records_free(struct records *records);

/* The memfd; borrowed. */
int records_fd(const struct records *records);

/* How many brokers have written here, this one included: 1, 2, ... */
uint32_t records_boot(const struct records *records);

/* The ends of all brokers that have written here. Owned by the records. */
struct token_ends *records_token_ends(struct records *records);

/*
 * Reserves an index; the first records_save() makes a record of it. Takes NULL.
 * Returns: the index; 0: no memory, or no records are kept.
 */
uint32_t records_add(struct records *records, enum record_type type);

/* The same. Returns: 0, with *ret_index 0 where no records are kept; -ENOMEM, with 0. */
int records_take(struct records *records, enum record_type type, uint32_t *ret_index);

/*
 * Between these the changes of the calling thread are one: all happen or none. May be
 * nested. Take NULL, as the functions below.
 */
void records_begin(struct records *records);
void records_end(struct records *records);

/*
 * Fills in the head of a record, writes the record and makes it live. index 0: nothing.
 */
void records_save(struct records *records, enum record_type type, uint32_t index,
		  void *record);

/*
 * Changes words of 8 bytes within a live record, each alone: for values that need not fit
 * each other. Returns: whether the words were written; false within a group.
 */
bool records_write(struct records *records, enum record_type type, uint32_t index,
		   size_t offset, const uint64_t *words, size_t n_words);

/*
 * A live record, to be written in place: for values that need not fit others. The address
 * is good until the record is dropped. NULL: there is none.
 */
void *records_place(struct records *records, enum record_type type, uint32_t index);

/* Writes a line of `events` in place, all or none, of at most RECORD_EVENT_BYTES. */
void records_put_event(struct event_record *event, uint64_t number, const char *line,
		       size_t length);

/* Frees a record. index 0: nothing. */
void records_drop(struct records *records, enum record_type type, uint32_t index);

/* The generation of a record, live or not. Dropping a record changes its generation. */
uint32_t records_generation(const struct records *records, enum record_type type,
			    uint32_t index);

/* The live record at the index; NULL: none. Valid until the record changes. */
const void *records_get(const struct records *records, enum record_type type,
			uint32_t index);

/* The first live record at or after *index, and sets *index to its index. */
const void *records_next(const struct records *records, enum record_type type,
			 uint32_t *index);

/* The largest index ever used. */
uint32_t records_last(const struct records *records, enum record_type type);

/* Prints all records, for people. */
void records_print(const struct records *records, struct text *text);

/* SPDX-License-Identifier: MIT */
/* What the resume*.c files share, for them alone. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "record/types.h"

struct allocation;
struct block;
struct broker;
struct folder;
struct image;
struct keep;
struct lifetime;
struct origin;
struct owner;
struct records;
struct tensors;
struct text;

/* Objects that are made again are by the index of their record; NULL: none. */
struct resume {
	struct broker *broker;
	struct keep *keep;
	const struct records *records;
	struct text *why;
	struct block **blocks;
	struct owner **payers; /* by block, of memory that is not made again */
	struct allocation **allocations;
	struct folder **folders;
	struct image **images;
	struct lifetime **lifetimes;
	uint32_t n_lifetimes;
	struct tensors **tensors;
	struct origin **origins;
};

/* Says which record could not be used. Returns: r. */
int resume_fail(const struct resume *resume, int r, const char *what, uint32_t index);

/* index 0: the root. */
struct folder *resume_folder_at(const struct resume *resume, bool of_modules,
				uint32_t index);

/*
 * The file that a record stands for, for the caller to close. Returns: -EBADF: the file
 * is missing, or shorter than its record says.
 */
int resume_file(const struct resume *resume, enum record_type type, uint32_t index,
		uint64_t size);

/* Make the object of a record, under registry.lock. Return: 0; -errno with a sentence. */
int resume_lifetime(struct resume *resume, uint32_t index, const void *data);
int resume_allocation(struct resume *resume, uint32_t index, const void *data);
int resume_freed(struct resume *resume, uint32_t index, const void *data);
int resume_lease(struct resume *resume, uint32_t index, const void *data);

/* Memory that no allocation names was on its way back. keep_drop_rest() follows. */
void resume_forget_blocks(const struct resume *resume);

/* Texts that no allocation has any more were being read. The same follows. */
void resume_forget_tensors(const struct resume *resume);

/* Drops the cgroups without allocations. */
void resume_forget_origins(const struct resume *resume);

/*
 * Frees again what had been freed, and what was to end with the broker. Under
 * registry.lock, let go meanwhile.
 */
void resume_frees(struct resume *resume);

/* What ended while there was no broker frees its memory now. Returns: 0; -ENOMEM. */
int resume_watch(const struct resume *resume);

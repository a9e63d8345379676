/* SPDX-License-Identifier: MIT */
/* Shared by the files resume*.c alone. */
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

/* Arrays of objects by the index of their record; NULL: not made again. */
struct resume {
	struct broker *broker;
	struct keep *keep;
	const struct records *records;
	struct text *why;
	struct block **blocks;
	struct owner **payers; /* by block, of memory not made again */
	struct block *freed;   /* memory of the host, for resume_give_back() */
	struct allocation **allocations;
	struct allocation **remade; /* still unknown to all others */
	uint32_t n_remade;
	bool *leased;	   /* by allocation */
	uint32_t n_ending; /* for resume_frees(), with the freed ones among them */
	struct owner *last_owner;
	struct folder **folders;
	uint32_t *n_names; /* of allocations, by folder; 0: the root */
	uint32_t n_folders;
	struct image **images;
	struct lifetime **lifetimes;
	uint32_t n_lifetimes;
	struct tensors **tensors;
	struct origin **origins;
};

/* Names the unusable record in the sentence. Returns: r. */
int resume_fail(const struct resume *resume, int r, const char *what, uint32_t index);

/* index 0: the root. */
struct folder *resume_folder_at(const struct resume *resume, bool of_modules,
				uint32_t index);

/*
 * Returns: the file of a record, for the caller to close; -EBADF: the file is missing, or
 * shorter than its record says.
 */
int resume_file(const struct resume *resume, enum record_type type, uint32_t index,
		uint64_t size);

/* Make the object of a record, under registry.lock. Return: 0; -errno with a sentence. */
int resume_lifetime(struct resume *resume, uint32_t index, const void *data);
int resume_remake(struct resume *resume, uint32_t index, const void *data);
int resume_allocation(struct resume *resume, uint32_t index, const void *data);
int resume_lease(struct resume *resume, uint32_t index, const void *data);
int resume_process(struct resume *resume, uint32_t index, const void *data);

/* The allocations that no step put into the tree. */
void resume_drop_remade(const struct resume *resume);

/* Which allocations have leases, by index. Returns: NULL: no memory. */
bool *resume_leased(const struct resume *resume, uint32_t n);

/* Whether resume_frees() frees the allocation. */
bool resume_is_ending(const struct allocation_record *record);

/* Runs once: makes again what was freed and is leased. Returns: as these. */
int resume_freed(struct resume *resume, uint32_t index, const void *data);

/*
 * Forgets blocks without an allocation: memory on its way back. keep_drop_rest() follows,
 * and for blocks with one of the kernel's numbers resume_close_backings(). Those of the
 * host are for resume_give_back(). Returns: 0; -errno with a sentence.
 */
int resume_forget_blocks(struct resume *resume);

/* Gives freed memory of the host back that no program has. Without registry.lock. */
void resume_give_back(struct resume *resume);

/* Closes the numbers of such blocks, and forgets the blocks. The last broker is dead. */
void resume_close_backings(const struct resume *resume);

/* Forgets texts without an allocation: somebody was reading them. The same follows. */
void resume_forget_tensors(const struct resume *resume);

/* Drops the cgroups without allocations. */
void resume_forget_origins(const struct resume *resume);

/*
 * Frees again the freed allocations, and those that were to end with the broker. Under
 * registry.lock, let go meanwhile.
 */
void resume_frees(struct resume *resume);

/*
 * Ends the last broker's processes that still live. Under registry.lock; the last broker
 * is dead.
 */
void resume_end_processes(const struct resume *resume);

/*
 * Watches lifetimes: those that ended without a broker free their memory now. Returns: 0;
 * -ENOMEM.
 */
int resume_watch(const struct resume *resume);

/* SPDX-License-Identifier: MIT */
/*
 * Shares: limits for the broker's own resources, for each owner, in one table.
 *
 * The user who opened the file is charged, even when another user owns the memory. A user
 * who has used up a share does not reduce the shares of others. There is no share of
 * device memory and of the machine's memory: first come, first served.
 *
 * All under the registry's lock.
 */
#pragma once

#include <stdint.h>

struct caller;
struct owner;
struct registry;
struct text;

enum share {
	SHARE_ALLOCATIONS, /* includes allocations being made and freed */
	SHARE_DESCRIPTORS, /* of the broker's process: one for each block of memory */
	SHARE_CGROUPS,	   /* that allocations came from, each by its path */
	SHARE_IMAGES,	   /* bytes of images and tensors being written */
	SHARE_LOADED,	   /* bytes of images in modules, each with a descriptor */
	SHARE_NAMES,	   /* bytes of functions of modules: names and parameters */
	SHARE_LOGS,	   /* bytes of compilers' logs of modules */
	SHARE_MODULES,
	SHARE_FOLDERS,	  /* of allocations and of modules */
	SHARE_READERS,	  /* of events_pipe */
	SHARE_TENSORS,	  /* bytes of tensors of allocations */
	SHARE_TEXTS,	  /* bytes that descriptors keep, to be read */
	SHARE_OPERATIONS, /* queued and unfinished */
	SHARE_QUESTIONS,  /* to a driver for what a file shows, without an answer yet */
	SHARE_PATHS,	  /* bytes of paths of loads and saves, queued and unfinished */
	SHARE_FILE_PROCESSES, /* for loads and saves, until they have ended */
	SHARE_WRITES,	      /* bytes of waiting writes, held in the broker */
	N_SHARES,
};

/* Amounts charged to an owner. */
struct shares {
	uint64_t held[N_SHARES];
};

/*
 * Charges n more to the owner. Returns: 0; the -errno of the share, with nothing charged.
 */
int share_take(struct owner *owner, enum share share, uint64_t n);
/* Charges without a limit. */
void share_take_beyond(struct owner *owner, enum share share, uint64_t n);
void share_give(struct owner *owner, enum share share, uint64_t n);

/*
 * Charges the caller for a question to a driver; *ret_payer is to be given to
 * share_give(). Returns: 0; -ENOMEM, -EBUSY with the sentence appended.
 */
int share_take_question(struct registry *registry, const struct caller *caller,
			struct owner **ret_payer, struct text *text);

/* Appends the sentence of a refusal of n more. */
void share_explain(const struct owner *owner, enum share share, uint64_t n,
		   struct text *text);

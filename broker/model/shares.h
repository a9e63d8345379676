/* SPDX-License-Identifier: MIT */
/*
 * Shares: how much of the broker's own resources one owner may have, in one table.
 *
 * Each thing that is counted is charged to the owner who asked for it, which is the user
 * who opened the file, whoever owns the memory. So a user who takes all that is allowed
 * leaves the shares of the others as they were. Memory of devices and of the machine is
 * no share: it is first come, first served.
 *
 * All under the registry's lock.
 */
#pragma once

#include "base/text.h"

struct owner;

enum share {
	SHARE_ALLOCATIONS, /* with those on their way in and out */
	SHARE_DESCRIPTORS, /* of the broker's process: one a block of memory */
	SHARE_IMAGES,	   /* bytes of images that are being written */
	SHARE_LOADED,	   /* bytes of images in modules, each with a descriptor */
	SHARE_MODULES,
	SHARE_READERS,	  /* of events_pipe */
	SHARE_OPERATIONS, /* queued and not done */
	SHARE_WRITES,	  /* bytes of writes that wait, held in the broker */
	N_SHARES,
};

/* What an owner has of each. */
struct shares {
	uint64_t held[N_SHARES];
};

/* Charges n more to the owner. Returns: 0; -errno of that share, and nothing is charged.
 */
int share_take(struct owner *owner, enum share share, uint64_t n);
/* Charges what can't be refused. */
void share_take_beyond(struct owner *owner, enum share share, uint64_t n);
void share_give(struct owner *owner, enum share share, uint64_t n);

/* Why n more were not to be had, as a sentence. */
void share_explain(const struct owner *owner, enum share share, uint64_t n,
		   struct text *text);

/* SPDX-License-Identifier: MIT */
/*
 * Shares: how much of each resource an owner has, and may have, in one table.
 *
 * Each share has a bound of its own, which keeps the broker's resources for all: a user
 * who has used up a share does not reduce the shares of others. The first rows have a
 * key, too. For these an administrator sets limits, and an owner may lower them
 * (model/limits.h). The smaller of bound and limit holds.
 *
 * The user who opened the file is charged, even when another user owns the memory. Memory
 * itself is charged to its owner, from before it is made until it has been given back.
 *
 * All under the registry's lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "model/device.h"

struct caller;
struct owner;
struct registry;
struct text;

enum share {
	SHARE_DEVICE, /* bytes of device 0, then of device 1, ...: what is really taken */
	SHARE_HOST = SHARE_DEVICE + DEVICES_MAX, /* bytes of the machine's memory */
	SHARE_ALLOCATIONS,			 /* in the tree, and being made */
	SHARE_MODULES,
	SHARE_STREAMS, /* without the default ones */
	SHARE_LEASES,
	SHARE_OPERATIONS, /* queued and unfinished */
	N_LIMITS,	  /* the shares from here on have no key */

	SHARE_RECORDS = N_LIMITS, /* allocations, with those being freed */
	SHARE_DESCRIPTORS,	  /* of the broker's process: one for each block */
	SHARE_CGROUPS,		  /* that allocations came from, each by its path */
	SHARE_IMAGES,	 /* bytes of images and tensors being written; of the host */
	SHARE_LOADED,	 /* bytes of images in modules, with a descriptor; of the host */
	SHARE_NAMES,	 /* bytes of functions of modules, with names and parameters */
	SHARE_LOGS,	 /* bytes of compilers' logs of modules */
	SHARE_FOLDERS,	 /* of allocations and of modules */
	SHARE_READERS,	 /* of events_pipe */
	SHARE_TENSORS,	 /* bytes of tensors of allocations; of the host */
	SHARE_TEXTS,	 /* bytes that descriptors keep, to be read */
	SHARE_CHORES,	 /* operations that follow from others: frees, moves, zeroing */
	SHARE_ORDER,	 /* of operations queued for one another, in the order of uses */
	SHARE_USES,	 /* of allocations by operations queued and unfinished */
	SHARE_QUESTIONS, /* reads without an answer yet: of a driver, of long texts */
	SHARE_PATHS,	 /* bytes of paths of loads and saves, queued and unfinished */
	SHARE_FILE_PROCESSES, /* for loads and saves, until they have ended */
	SHARE_WAITS,	      /* allocations that wait for memory */
	SHARE_WRITES,	      /* bytes of waiting writes, held in the broker */
	N_SHARES,
};

#define LIMIT_NONE UINT64_MAX

/* Limits that were given, of an owner or of all owners. */
struct limits {
	uint64_t max[N_LIMITS]; /* LIMIT_NONE: without a limit */
	uint32_t given;		/* a bit each */
	uint32_t own; /* of them, those of the owner alone, where root gave none */
};

/* Amounts charged to an owner, and the owner's limits. */
struct shares {
	uint64_t held[N_SHARES];
	uint64_t peak[N_LIMITS]; /* before what is held now: see share_peak() */
	uint64_t n_refused[N_LIMITS];
	uint64_t still_mapped; /* bytes of host memory that were freed, and that programs
				  have mapped */
	uint64_t small[DEVICES_MAX][2]; /* bytes of small pieces; [1]: asynchronous */
	struct limits limits;
	const struct limits *defaults; /* for keys that `limits` lacks; NULL: none */

	/* The last refusal, for share_explain(). */
	struct {
		enum share share;
		uint64_t n, limit;
		bool is_limit; /* an administrator's, or the owner's own */
	} refused;
};

/* The key of a share with limits, as in `max`: `device:0`, `host`. Returns: text. */
#define SHARE_KEY_SIZE 16
const char *share_key(enum share share, char text[SHARE_KEY_SIZE]);
/* Whether amounts of the share are bytes, else counts. */
bool share_is_bytes(enum share share);

/* An amount as people read it; LIMIT_NONE: `max`. Returns: text. */
const char *share_text(enum share share, uint64_t n, char text[64]);

/* The limit for an owner: LIMIT_NONE without one. */
uint64_t share_limit(const struct owner *owner, enum share share);

/*
 * Charges n more to the owner. Returns: 0; -EDQUOT beyond a limit; the -errno of the
 * share, with nothing charged; -ENOMEM when the sum has more than 64 bits.
 */
int share_take(struct owner *owner, enum share share, uint64_t n);
/* Charges without a limit; for shares without a key. */
void share_take_beyond(struct owner *owner, enum share share, uint64_t n);
/* Charges again for what an owner had before: whatever the limits are by now. */
void share_restore(struct owner *owner, enum share share, uint64_t n);
void share_give(struct owner *owner, enum share share, uint64_t n);
/* How much more share_take() would charge, of a share without a key. */
uint64_t share_left(struct owner *owner, enum share share);
/* The same for what could not be made: the peak shall not show that it was tried. */
void share_undo(struct owner *owner, enum share share, uint64_t n);

/* The most that was ever held. */
uint64_t share_peak(const struct owner *owner, enum share share);

/*
 * As share_take() and share_give(), for memory that the driver makes in an owner's
 * worker, one piece after the other. As far as is known, small pieces share chunks of 2
 * MiB, those of cuMemAllocAsync among themselves, and larger pieces are rounded up to
 * chunks.
 */
int share_take_pieces(struct owner *owner, uint32_t device, bool async, uint64_t size);
void share_give_pieces(struct owner *owner, uint32_t device, bool async, uint64_t size,
		       bool undo);

/* Whether an error is a share's, for which share_explain() has the sentence. */
bool share_is_refusal(int r);

/*
 * Charges the caller for a question, as SHARE_QUESTIONS says; *ret_payer is to be given
 * to share_give(). Returns: 0; -ENOMEM, -EBUSY with the sentence appended.
 */
int share_take_question(struct registry *registry, const struct caller *caller,
			struct owner **ret_payer, struct text *text);

/* Counts the owner's last refusal, and appends its sentence. */
void share_explain(struct owner *owner, struct text *text);

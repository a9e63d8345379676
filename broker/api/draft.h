/* SPDX-License-Identifier: MIT */
/*
 * A draft: contents that a descriptor writes, in a memfd, over sealed contents of before
 * (the base). A write copies only the pieces of the base that it touches. The rest is
 * copied before the draft is sealed, a piece a call, so no call takes long. For the same
 * reason no call frees more than a piece or two: bytes that are cut off stay in the memfd
 * until then, and a base that is no longer needed is the caller's to close.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DRAFT_PIECE  ((uint64_t)1 << 20)
#define DRAFT_PIECES 256 /* at most */

struct draft {
	int fd; /* -1: nothing written yet */
	uint64_t size;
	bool sealed; /* fd was handed over, and is whole */
	int base;    /* -1: none */
	bool owns_base;
	uint64_t kept;	    /* bytes of an owned base */
	uint64_t base_size; /* bytes of the base that still belong to the contents */
	uint64_t copied[DRAFT_PIECES / 64]; /* a bit for each piece */
	uint64_t end;			    /* bytes of the memfd: size or more */
	uint64_t stale[DRAFT_PIECES / 64];  /* a bit for each piece of the memfd that was
					       cut off: old bytes, to be read as zeros */
	int left; /* an owned base that is no longer needed: draft_take_left(); -1 */
	uint64_t left_size;
};

/* base is borrowed; -1: none. */
void draft_init(struct draft *draft, int base, uint64_t size);
/* Takes the descriptors out of a draft that ends: -1 for each that is lacking. */
void draft_end(struct draft *draft, int *ret_fd, int *ret_base);

/*
 * After any call that may be the last to need an owned base: its descriptor and size, for
 * the caller. Returns: -1: there is none.
 */
int draft_take_left(struct draft *draft, uint64_t *ret_size);

/* Returns: bytes read, 0 at the end; -EIO. */
long draft_read(const struct draft *draft, uint64_t offset, void *bytes, size_t size);

/* Bytes beside the draft's own that the next write keeps. */
uint64_t draft_keeps(const struct draft *draft);

/* Up to DRAFT_PIECES pieces. Returns: 0; -ENOMEM, -EIO. */
int draft_write(struct draft *draft, uint64_t offset, const void *bytes, size_t size);
int draft_resize(struct draft *draft, uint64_t size);

/* Whether all bytes are the draft's own. */
bool draft_is_whole(const struct draft *draft);
/* Copies or clears a piece. Returns: 0 once the draft is whole; 1: call again; -ENOMEM,
 * -EIO. */
int draft_copy(struct draft *draft);

/* Hands over a whole draft, sealed: *ret_fd is another descriptor. Returns: 0; -errno. */
int draft_seal(struct draft *draft, int *ret_fd);

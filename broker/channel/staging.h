/* SPDX-License-Identifier: MIT */
/*
 * A staging area: memory that the broker and exactly one worker share, cut into slots.
 *
 * It is a memfd made and sealed by the broker (no shrinking, growing or unsealing: a
 * worker can't make the broker's access a SIGBUS). A slot holds the payload of one
 * transfer, page aligned, with a page before it where the header of a FUSE request fits,
 * so that requests are read from the kernel straight into the slot.
 */
#pragma once

#include <stdint.h>

#include "gpumem/wire.h"

#define STAGING_HEADER 4096u
#define STAGING_SLOT   (STAGING_HEADER + WIRE_TRANSFER_MAX + 4096u)

struct staging {
	int fd;
	uint8_t *memory;
	uint64_t size;
	unsigned int n_slots;
	unsigned int n_free; /* under the caller's lock, as is the list */
	unsigned int *free_list;
};

/* Returns: 0; -ENOMEM, -EMFILE, or what memfd_create and mmap return. */
int staging_init(struct staging *staging, const char *name, unsigned int n_slots);
void staging_deinit(struct staging *staging);

/* Takes a slot. Returns: its index; -EAGAIN when all are taken. */
int staging_get(struct staging *staging);
void staging_put(struct staging *staging, unsigned int slot);

/* Where the payload of a slot stands: in memory, and as an offset of the area. */
static inline uint8_t *staging_payload(const struct staging *staging, unsigned int slot)
{
	return staging->memory + (uint64_t)slot * STAGING_SLOT + STAGING_HEADER;
}

static inline uint64_t staging_offset(unsigned int slot)
{
	return (uint64_t)slot * STAGING_SLOT + STAGING_HEADER;
}

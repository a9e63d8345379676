/* SPDX-License-Identifier: MIT */
/*
 * A staging area: memory shared by the broker and a single worker, divided into slots.
 *
 * The broker makes and seals a memfd (no shrinking, growing or unsealing), so that a
 * worker can't cause a SIGBUS in the broker. A slot holds the payload of a transfer, page
 * aligned. The page before the payload has room for the header of a FUSE request, so
 * requests are read from the kernel directly into the slot.
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
	unsigned int n_free; /* under the caller's lock, like all below */
	unsigned int n_made; /* slots whose pages are there: the first ones */
	unsigned int *free_list;
};

/* Returns: 0; -ENOMEM, -EMFILE, or the error of memfd_create or mmap. */
int staging_init(struct staging *staging, const char *name, unsigned int n_slots);
void staging_deinit(struct staging *staging);

/* Takes a slot, with its pages. Returns: its index; -EAGAIN when none is free. */
int staging_get(struct staging *staging);
void staging_put(struct staging *staging, unsigned int slot);

/* The payload of a slot: its address in memory, and its offset in the area. */
static inline uint8_t *staging_payload(const struct staging *staging, unsigned int slot)
{
	return staging->memory + (uint64_t)slot * STAGING_SLOT + STAGING_HEADER;
}

static inline uint64_t staging_offset(unsigned int slot)
{
	return (uint64_t)slot * STAGING_SLOT + STAGING_HEADER;
}

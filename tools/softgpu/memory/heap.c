/* SPDX-License-Identifier: MIT */
/*
 * Where cuMemAlloc and the pools get memory: blocks of physical memory, each mapped at
 * one place, cut into pieces.
 *
 * A piece of up to 1 MiB shares a block of 2 MiB with others, as on hardware; a larger
 * piece has a block of its own. A block is divided into slots of 256 bytes; each byte of
 * the map says whether a slot is free, begins a piece or continues a piece. Empty blocks
 * stay until heap_trim(): cuMemFree trims at once, a pool at its threshold, and a piece
 * of a kept block is not zeroed again.
 */
#include "heap.h"

#include "ledger.h"
#include "softgpu/options.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define SLOT_SIZE   ((uint64_t)256)
#define SHARED_SIZE ((uint64_t)1 << 20) /* the largest piece that shares a block */

enum slot {
	SLOT_FREE,
	SLOT_FIRST,
	SLOT_NEXT,
};

struct block {
	struct block *next;
	struct memory memory;
	uint64_t start;
	uint64_t slot_size; /* SLOT_SIZE, or the whole block's */
	size_t n_slots;
	size_t n_free;
	unsigned char slots[];
};

/* The mapping alone holds the memory: descriptors are for handles that are exported. */
static int block_map(struct block *block)
{
	void *at = mmap(NULL, block->memory.size, PROT_READ | PROT_WRITE, MAP_SHARED,
			block->memory.fd, 0);

	if (at == MAP_FAILED) {
		ledger_release(&block->memory);
		return -ENOMEM;
	}
	closep(&block->memory.fd);
	block->start = (uint64_t)(uintptr_t)at;
	return 0;
}

static int block_new(struct heap *heap, uint64_t size, struct block **ret)
{
	const uint64_t slot_size = size <= SHARED_SIZE ? SLOT_SIZE : 0;
	const uint64_t bytes = align_up(size, OPTIONS_GRANULARITY);
	const size_t n_slots = slot_size ? (size_t)(bytes / slot_size) : 1;
	_cleanup_free_ struct block *block = calloc(1, sizeof(*block) + n_slots);

	if (!block || bytes < size)
		return -ENOMEM;
	if (ledger_create(heap->device, bytes, &block->memory) < 0)
		return -ENOMEM;
	if (block_map(block) < 0)
		return -ENOMEM;
	block->slot_size = slot_size ? slot_size : bytes;
	block->n_slots = block->n_free = n_slots;
	block->next = heap->blocks;
	heap->blocks = block;
	heap->reserved += bytes;
	heap->reserved_high = MAX(heap->reserved_high, heap->reserved);
	*ret = take_ptr(block);
	return 0;
}

static void block_free(struct heap *heap, struct block *block)
{
	munmap((void *)(uintptr_t)block->start, block->memory.size);
	ledger_release(&block->memory);
	heap->reserved -= block->memory.size;
	free(block);
}

/* First fit. Returns: the first of n free slots in a row, or n_slots. */
static size_t block_room(const struct block *block, size_t n)
{
	size_t run = 0;

	if (block->n_free < n)
		return block->n_slots;
	for (size_t i = 0; i < block->n_slots; i++) {
		run = block->slots[i] == SLOT_FREE ? run + 1 : 0;
		if (run == n)
			return i + 1 - n;
	}
	return block->n_slots;
}

static size_t block_slots(const struct block *block, uint64_t size)
{
	return (size_t)((size + block->slot_size - 1) / block->slot_size);
}

static uint64_t block_take(struct heap *heap, struct block *block, size_t first, size_t n)
{
	memset(block->slots + first, SLOT_NEXT, n);
	block->slots[first] = SLOT_FIRST;
	block->n_free -= n;
	heap->used += n * block->slot_size;
	heap->used_high = MAX(heap->used_high, heap->used);
	return block->start + first * block->slot_size;
}

/* Large pieces take an empty block of exactly their size, small ones any shared block. */
static bool block_serves(const struct block *block, uint64_t size)
{
	if (size <= SHARED_SIZE)
		return block->slot_size == SLOT_SIZE;
	return block->slot_size == align_up(size, OPTIONS_GRANULARITY);
}

int heap_alloc(struct heap *heap, uint64_t size, uint64_t *ret_address)
{
	struct block *block;

	for (block = heap->blocks; block; block = block->next) {
		const size_t n = block_slots(block, size);
		size_t first;

		if (!block_serves(block, size))
			continue;
		first = block_room(block, n);
		if (first == block->n_slots)
			continue;
		*ret_address = block_take(heap, block, first, n);
		return 0;
	}
	if (block_new(heap, size, &block) < 0)
		return -ENOMEM;
	*ret_address = block_take(heap, block, 0, block_slots(block, size));
	return 0;
}

static struct block *heap_find(const struct heap *heap, uint64_t address)
{
	struct block *block = heap->blocks;

	while (block &&
	       (address < block->start || address - block->start >= block->memory.size))
		block = block->next;
	return block;
}

void heap_free(struct heap *heap, uint64_t address)
{
	struct block *block = heap_find(heap, address);
	size_t i = (size_t)((address - block->start) / block->slot_size);

	do {
		block->slots[i++] = SLOT_FREE;
		block->n_free++;
		heap->used -= block->slot_size;
	} while (i < block->n_slots && block->slots[i] == SLOT_NEXT);
}

void heap_trim(struct heap *heap, uint64_t keep)
{
	struct block **link = &heap->blocks;

	while (*link && heap->reserved > keep) {
		struct block *block = *link;

		if (block->n_free < block->n_slots) {
			link = &block->next;
			continue;
		}
		*link = block->next;
		block_free(heap, block);
	}
}

/* SPDX-License-Identifier: MIT */
/*
 * Blocks: pieces of physical memory owned by the broker.
 *
 * A block is a descriptor. A device block is made by cuMemCreate without any context, so
 * that no kernel can destroy it, and exported at once; the driver's handle is released,
 * since the descriptor alone keeps the memory. (A handle that was imported from the
 * descriptor could not be exported again.) Workers get a copy of the descriptor and map
 * the block at its address. A host block is a sealed memfd, also mapped by the broker.
 * Small allocations share a block divided into cells (slab.h).
 *
 * A guard keeps addresses next to a block free of any mapping, in every worker. A kernel
 * that goes on past the block's end, or begins before its start, faults there.
 *
 * struct memory has its own lock, the innermost: it may be taken under the registry's
 * lock. No driver call is made under either lock.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "memory/address_space.h"
#include "memory/host_file.h"
#include "model/shares.h"

#define MEMORY_DEVICES_MAX DEVICES_MAX

/* Where a block is: a device, or */
#define PLACE_HOST MEMORY_DEVICES_MAX
#define N_PLACES   (PLACE_HOST + 1)

/* The share of the memory at a place. */
static inline enum share place_share(uint32_t place)
{
	return (enum share)(SHARE_DEVICE + place);
}

_Static_assert(SHARE_DEVICE + PLACE_HOST == SHARE_HOST, "places have shares");

/* Sides of a block where SPACE_UNIT of addresses stays empty. */
enum guard {
	GUARD_NONE,
	GUARD_END,
	GUARD_BOTH,
};

struct block_record;
struct cuda_failure;
struct keep;
struct records;
struct slab;
struct owner;

/*
 * Another owner's worker that has mapped the block before. Fields are under this worker's
 * lock.
 */
struct guest {
	const void *worker;
	uint32_t epoch;		/* the worker process with the mapping; 0: none */
	bool writable;		/* the mapping */
	unsigned int *n_guests; /* counts the worker's records; atomic */
	struct guest *next;
};

struct block {
	uint64_t address;
	uint64_t size;	/* physical, a multiple of the granularity */
	uint32_t place; /* a device, or PLACE_HOST */
	int fd;		/* the memory: workers get copies */
	void *memory;	/* host: the broker's mapping; NULL: none yet. registry.lock */
	enum guard guard;
	uint32_t record, record_generation; /* for the next broker; 0: none */
	uint32_t n_lent; /* times that a program got the file, to write; registry.lock */
	bool given; /* host: a program may have got the file itself, and put any number of
		       locks on it, at which every close looks; registry.lock */
	struct slab *slab;    /* NULL: the block serves a single allocation */
	struct owner *payer;  /* charged for the memory, until block_free() */
	bool pays_descriptor; /* of a slab, or freed: the payer pays a descriptor, too */
	bool unwritten;	      /* the kernel said, after the last of n_lent: nobody has
				 it open for writing; registry.lock */
	uint32_t backing;     /* under registry.lock: block_record has it; 0: none */
	struct block *prev, *next; /* of owner->still_mapped, of resume->freed;
				      registry.lock */

	/*
	 * The processes of the mover and of the owner's worker with the block mapped (0:
	 * none). Under the lock of the mover or worker.
	 */
	uint32_t mover_epoch;
	uint32_t owner_epoch;
	struct guest *guests; /* the list is under memory.lock */
};

struct memory {
	struct cuda_driver *driver;
	struct records *records; /* of blocks; NULL: none are kept, like the next: */
	struct keep *keep;
	/* Tells the kernel that files of a block can't be mapped any more; may be NULL.
	 */
	void (*backing_close)(uint32_t backing); /* atomic */
	struct host_files host_files;
	pthread_mutex_t lock;
	unsigned int n_devices;
	uint64_t granularity;
	struct address_space device_space[MEMORY_DEVICES_MAX];
	struct address_space host_space;
	uint64_t device_bytes[MEMORY_DEVICES_MAX]; /* physical bytes in use */
	uint64_t host_bytes;
	uint64_t n_blocks;
};

/* Returns: 0; -ENOMEM; or the errno of the driver's result. */
int memory_init(struct memory *memory, struct cuda_driver *driver, unsigned int n_devices,
		struct cuda_failure *failure);
void memory_deinit(struct memory *memory); /* asserts that no block is left */

/* Sizes of blocks are multiples of this. */
uint64_t block_granularity(const struct memory *memory, uint32_t place);

/* The size of a block for so many bytes. */
uint64_t block_size_for(const struct memory *memory, uint32_t place, uint64_t size);

/*
 * Makes a block of at least size bytes.
 *
 * Returns: 0; -ENOMEM when the device (failure is set) or the host has not enough memory;
 * -EMFILE when the broker has no descriptor left; or the errno of the driver's result.
 */
int block_new(struct block **ret_block, struct memory *memory, uint32_t place,
	      uint64_t size, enum guard guard, struct cuda_failure *failure);

/*
 * The address of an allocation that has the block to itself: the block's start, or with a
 * guard so that the allocation's last byte is the block's. The last address is as aligned
 * as its size.
 */
uint64_t block_address_for(const struct block *block, uint64_t size);

bool block_is_host(const struct block *block);

/* The device of the block in a wire record; 0 for host memory. */
uint32_t block_device(const struct block *block);

/*
 * Whether the machine has this much memory and keeps a reserve. Memory in memfds of the
 * broker must not make the kernel run out of memory.
 */
bool host_has_room(uint64_t size);

/* Saves a block with the user who is charged for it. cells: size class; 0: no slab. */
void block_save(const struct memory *memory, const struct block *block, uint32_t cells);

/*
 * Makes a block of its record and its descriptor, which is taken over on success. Host
 * memory is not mapped yet: with thousands of blocks that would take as long as all else.
 * Returns: 0; -EINVAL when its addresses are none or are taken; -ENOMEM.
 */
int block_restore(struct block **ret_block, struct memory *memory, uint32_t index,
		  const struct block_record *record, int fd);

/*
 * Maps a host block for block_bytes_at(), if it is not mapped yet. Takes any block. Under
 * registry.lock. Returns: 0; -ENOMEM.
 */
int block_map(struct block *block);

/* From now on the kernel lets nobody map files by this number; 0: does nothing. */
void memory_close_backing(struct memory *memory, uint32_t backing);
/* The same, by the number of the block. */
void block_close_backing(struct memory *memory, struct block *block);

/* Releases a block that no worker has mapped. */
void block_free(struct memory *memory, struct block *block);

/*
 * Makes a descriptor of the block for a worker; the caller closes it. Of host memory a
 * program gets an open of its own (host_file_open()). Returns: a descriptor; -errno.
 */
int block_share(const struct block *block);

/* The same for a worker that may only read. The driver can't lend device memory so. */
int block_share_reading(const struct block *block);

/*
 * The block's record of another owner's worker; with n_guests, which counts the worker's
 * records, a missing record is made. NULL: no record, or no memory.
 */
struct guest *block_guest(struct memory *memory, struct block *block, const void *worker,
			  unsigned int *n_guests);

/* Forgets a worker without a process, while nothing uses the block. */
void block_forget_guest(struct memory *memory, struct block *block, const void *worker);

/*
 * The workers of other owners with a record. Returns: how many there are, with an array
 * for free(); -ENOMEM.
 */
int block_guests(struct memory *memory, const struct block *block,
		 const void ***ret_workers);

/* The broker's mapping of a mapped host block at an address of the block. */
uint8_t *block_bytes_at(const struct block *block, uint64_t address);

/* Physical bytes in use on a device. */
uint64_t memory_device_bytes(struct memory *memory, uint32_t device);

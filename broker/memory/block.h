/* SPDX-License-Identifier: MIT */
/*
 * Blocks: pieces of physical memory that the broker owns.
 *
 * A device block is a handle of cuMemCreate, made and kept without any context, so that
 * no kernel can take it away; workers get it as a descriptor and map it at the block's
 * address. A host block is a sealed memfd that the broker maps itself. Small allocations
 * share a block, cut into cells (chunk.h).
 *
 * struct memory has a lock of its own, which is the innermost: it may be taken under the
 * registry's, and no driver call is made under either.
 */
#pragma once

#include <pthread.h>

#include "cuda/driver.h"
#include "memory/address_space.h"

#define MEMORY_DEVICES_MAX 16

struct chunk;

/* Another owner's worker that has had a block mapped. Fields under that worker's lock. */
struct guest {
	const void *worker;
	uint32_t epoch; /* the run that has it mapped; 0: none */
	struct guest *next;
};

struct block {
	uint64_t address;
	uint64_t size; /* physical, a multiple of the granularity */
	uint64_t handle;
	uint32_t device;
	int fd;		     /* host: the memfd; else -1 */
	int exported;	     /* device: what leaseholders get copies of; -1: none yet.
				memory.lock */
	void *memory;	     /* host: where the broker has it mapped */
	struct chunk *chunk; /* NULL: serves one allocation */

	/*
	 * Which run of the mover and of its owner's worker has it mapped (0: none). Under
	 * the lock of that worker.
	 */
	uint32_t mover_epoch;
	uint32_t owner_epoch;
	struct guest *guests; /* the list under memory.lock; it only grows */
};

struct memory {
	struct cuda_driver *driver;
	pthread_mutex_t lock;
	unsigned int n_devices;
	uint64_t granularity;
	struct space device_space[MEMORY_DEVICES_MAX];
	struct space host_space;
	uint64_t device_bytes[MEMORY_DEVICES_MAX]; /* physical, held now */
	uint64_t host_bytes;
	uint64_t n_blocks;
};

/* Returns: 0; -ENOMEM; or what the driver's answer means. */
int memory_init(struct memory *memory, struct cuda_driver *driver, unsigned int n_devices,
		struct cuda_failure *failure);
void memory_deinit(struct memory *memory); /* asserts that no block is left */

/*
 * Makes a block of at least size bytes.
 *
 * Returns: 0; -ENOMEM when the device (failure says so) or the host has not that much
 * left; -EMFILE when the broker has no descriptor left for it; or what the driver's
 * answer means.
 */
int block_new(struct block **ret_block, struct memory *memory, uint32_t device,
	      uint64_t size, struct cuda_failure *failure);
int block_new_host(struct block **ret_block, struct memory *memory, uint64_t size);

/*
 * Whether the machine can give that much memory and keep enough for itself: what users
 * put into the broker's memfds must not lose it to the kernel.
 */
bool host_has_room(uint64_t size);

/*
 * Gives the memory back. No worker has it mapped any more.
 *
 * Returns: 0; a negative errno when the driver would not take it back.
 */
int block_free(struct memory *memory, struct block *block, struct cuda_failure *failure);

/*
 * A descriptor of the block that a worker can map; the caller closes it.
 * Returns: a descriptor; -EMFILE; or what the driver's answer means.
 */
int block_export(struct memory *memory, const struct block *block,
		 struct cuda_failure *failure);

/*
 * Has the block keep a descriptor of its own, which block_share() copies.
 * Returns: 0; as block_export().
 */
int block_prepare_share(struct memory *memory, struct block *block,
			struct cuda_failure *failure);

/*
 * A descriptor of a prepared block for a leaseholder, which the caller closes. Without
 * write, that of host memory can't be mapped for writing; the driver has no such
 * descriptors of device memory.
 *
 * Returns: a descriptor; -EMFILE; -ENODEV when the block was not prepared.
 */
int block_share(struct memory *memory, const struct block *block, bool write);

/*
 * What the block knows of another owner's worker; made where make is set. NULL: nothing,
 * or no memory for it.
 */
struct guest *block_guest(struct memory *memory, struct block *block, const void *worker,
			  bool make);

/* The worker of the guest behind that one (NULL: of the first); NULL at the end. */
const void *block_next_guest(struct memory *memory, struct block *block,
			     const void *worker);

/* Physical bytes held on a device. */
uint64_t memory_device_bytes(struct memory *memory, uint32_t device);

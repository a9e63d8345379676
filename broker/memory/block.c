/* SPDX-License-Identifier: MIT */
#include "memory/block.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <gpumem/wire.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "base/descriptor.h"
#include "base/huge_pages.h"
#include "base/proc.h"
#include "cuda/driver.h"
#include "keep/keep.h"
#include "memory/kept.h"
#include "model/owner.h"
#include "record/records.h"

/* Host memory: bytes made in a step, and bytes always left to other programs. */
#define HOST_STEP    ((uint64_t)256 << 20)
#define HOST_RESERVE ((uint64_t)512 << 20)

static CUmemAllocationProp block_properties(uint32_t device)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)device },
	};
}

static int memory_find_granularity(struct memory *memory, struct cuda_failure *failure)
{
	memory->granularity = SPACE_UNIT;
	for (uint32_t i = 0; i < memory->n_devices; i++) {
		CUmemAllocationProp properties = block_properties(i);
		size_t granularity;
		int r;

		r = CUDA(memory->driver, failure, cuMemGetAllocationGranularity,
			 &granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
		if (r < 0)
			return r;
		memory->granularity = MAX(memory->granularity, (uint64_t)granularity);
	}
	return 0;
}

int memory_init(struct memory *memory, struct cuda_driver *driver, unsigned int n_devices,
		struct cuda_failure *failure)
{
	int r;

	*memory = (struct memory){ .driver = driver, .n_devices = n_devices };
	pthread_mutex_init(&memory->lock, NULL);
	host_files_init(&memory->host_files);
	r = memory_find_granularity(memory, failure);
	if (r < 0)
		return r;
	r = address_space_init(&memory->host_space, WIRE_HOST_BASE, WIRE_HOST_SPAN);
	for (uint32_t i = 0; r == 0 && i < n_devices; i++)
		r = address_space_init(&memory->device_space[i],
				       WIRE_DEVICE_BASE + i * WIRE_DEVICE_SPAN,
				       WIRE_DEVICE_SPAN);
	return r;
}

void memory_deinit(struct memory *memory)
{
	assert(memory->n_blocks == 0);
	for (uint32_t i = 0; i < memory->n_devices; i++)
		address_space_deinit(&memory->device_space[i]);
	address_space_deinit(&memory->host_space);
	pthread_mutex_destroy(&memory->lock);
	host_files_deinit(&memory->host_files);
}

/* ---- addresses and counts ---- */

static struct address_space *block_space(struct memory *memory, const struct block *block)
{
	return block_is_host(block) ? &memory->host_space
				    : &memory->device_space[block->place];
}

static uint64_t *block_bytes(struct memory *memory, const struct block *block)
{
	return block_is_host(block) ? &memory->host_bytes
				    : &memory->device_bytes[block->place];
}

/* Bytes of address space that the block takes: its own and the empty ones of its guard.
 */
static uint64_t block_span(const struct block *block)
{
	return block->size + block->guard * SPACE_UNIT;
}

static uint64_t block_span_before(const struct block *block)
{
	return block->guard == GUARD_BOTH ? SPACE_UNIT : 0;
}

static int block_take_address(struct memory *memory, struct block *block)
{
	pthread_mutex_lock(&memory->lock);
	block->address = address_space_get(block_space(memory, block), block_span(block));
	if (block->address) {
		block->address += block_span_before(block);
		*block_bytes(memory, block) += block->size;
		memory->n_blocks++;
	}
	pthread_mutex_unlock(&memory->lock);
	return block->address ? 0 : -ENOMEM;
}

static void block_give_address(struct memory *memory, struct block *block)
{
	pthread_mutex_lock(&memory->lock);
	address_space_put(block_space(memory, block),
			  block->address - block_span_before(block), block_span(block));
	*block_bytes(memory, block) -= block->size;
	memory->n_blocks--;
	pthread_mutex_unlock(&memory->lock);
}

/* ---- what the next broker gets ---- */

void block_save(const struct memory *memory, const struct block *block, uint32_t cells)
{
	struct block_record record = {
		.address = block->address,
		.size = block->size,
		.place = block->place,
		.guard = block->guard,
		.cells = cells,
		.payer = block->payer ? block->payer->uid : 0,
		.backing = block->backing,
		.freed = block->pays_descriptor && !cells,
	};

	records_save(memory->records, RECORD_BLOCK, block->record, &record);
}

/* Returns: 0; -errno. */
static int block_keep(struct memory *memory, struct block *block)
{
	int r = kept_add(memory, RECORD_BLOCK, block->fd, &block->record);

	if (!block->record)
		return r;
	block->record_generation =
		records_generation(memory->records, RECORD_BLOCK, block->record);
	block_save(memory, block, 0);
	return 0;
}

/*
 * After the keeper's close ours is the last: when the block has been freed, its memory is
 * back.
 */
static void block_unkeep(struct memory *memory, const struct block *block)
{
	const struct keep_key key = { KEEP_BLOCK, block->record,
				      block->record_generation };

	if (!block->record)
		return;
	records_drop(memory->records, RECORD_BLOCK, block->record);
	/* Programs that were given the memory may have put locks on the file. */
	if (block->given)
		keep_drop_late(memory->keep, key);
	else
		keep_drop(memory->keep, key);
}

/* ---- device memory ---- */

/* Makes device memory and exports it. Returns: a descriptor; the driver's errno. */
static int device_memory(struct memory *memory, uint32_t device, uint64_t size,
			 struct cuda_failure *failure)
{
	CUmemAllocationProp properties = block_properties(device);
	CUmemGenericAllocationHandle handle;
	int fd, r;

	r = CUDA(memory->driver, failure, cuMemCreate, &handle, size, &properties, 0);
	if (r < 0)
		return r;
	r = CUDA(memory->driver, failure, cuMemExportToShareableHandle, &fd, handle,
		 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	(void)CUDA(memory->driver, NULL, cuMemRelease, handle);
	if (r < 0)
		return r;
	(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	return fd;
}

/* Without memory of its own yet. */
static int block_make(struct block **ret_block, const struct memory *memory,
		      uint32_t place, uint64_t size, enum guard guard)
{
	struct block *block;

	if (size > (place == PLACE_HOST ? WIRE_HOST_SPAN : WIRE_DEVICE_SPAN))
		return -ENOMEM;
	if (!descriptor_is_left())
		return -EMFILE;
	block = calloc(1, sizeof(*block));
	if (!block)
		return -ENOMEM;
	block->place = place;
	block->guard = guard;
	block->size = align_up(size, block_granularity(memory, place));
	*ret_block = block;
	return 0;
}

static int block_new_device(struct block **ret_block, struct memory *memory,
			    uint32_t device, uint64_t size, enum guard guard,
			    struct cuda_failure *failure)
{
	_cleanup_free_ struct block *block = NULL;
	_cleanup_close_ int fd = -1;
	int r;

	r = block_make(&block, memory, device, size, guard);
	if (r < 0)
		return r;
	fd = device_memory(memory, device, block->size, failure);
	/* A driver without descriptors left reports lack of memory. */
	if (fd < 0)
		return descriptor_is_left() ? fd : -EMFILE;
	r = block_take_address(memory, block);
	if (r < 0)
		return r;
	block->fd = take_fd(&fd);
	*ret_block = take_ptr(block);
	return 0;
}

int block_share(const struct block *block)
{
	int fd = fcntl(block->fd, F_DUPFD_CLOEXEC, 3);

	return fd < 0 ? -errno : fd;
}

int block_share_reading(const struct block *block)
{
	return block_is_host(block) ? host_file_open(NULL, block->fd, false)
				    : block_share(block);
}

/* ---- host memory ---- */

static int meminfo = -1;

static void meminfo_open(void)
{
	meminfo = proc_open("meminfo", O_RDONLY);
}

/*
 * Bytes that programs can still use before the kernel runs out of memory; 0: unknown. The
 * file stays open: a close looks at all locks (fcntl(2)) that any users have on it.
 */
static uint64_t host_available(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	unsigned long long kib = 0;
	char text[1024] = "";
	const char *line;

	pthread_once(&once, meminfo_open);
	if (pread(meminfo, text, sizeof(text) - 1, 0) <= 0)
		return 0;
	line = strstr(text, "MemAvailable:");
	if (line)
		(void)sscanf(line, "MemAvailable: %llu kB", &kib);
	return kib * 1024;
}

bool host_has_room(uint64_t size)
{
	uint64_t available = host_available();

	return !available || size <= available - MIN(available, HOST_RESERVE);
}

/*
 * Makes all pages now, because a page missing later would be a SIGBUS. Works in steps,
 * each only while enough memory stays free: if the machine ran out of memory, the kernel
 * could end the broker, and the memory of all users would be lost.
 */
static int host_populate(int fd, void *memory, uint64_t size)
{
	uint64_t step;

	for (uint64_t done = 0; done < size; done += step) {
		if (!host_has_room(size - done))
			return -ENOMEM;
		step = MIN(size - done, HOST_STEP);
		huge_pages_make((uint8_t *)memory + done, step);
		if (fallocate(fd, 0, (off_t)done, (off_t)step) < 0)
			return errno == ENOSPC ? -ENOMEM : -errno;
	}
	return 0;
}

/* Returns: a descriptor, with *ret_memory to unmap; -errno. */
static int host_memfd(uint64_t size, void **ret_memory)
{
	_cleanup_close_ int fd = -1;
	void *memory;
	int r;

	fd = memfd_create("gpumem-host", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	/*
	 * Mode 0600, because a user with a read-only descriptor could open it for writing
	 * through /proc.
	 */
	if (fchmod(fd, 0600) < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) < 0)
		return -errno;
	memory = huge_pages_map(fd, size);
	if (memory == MAP_FAILED)
		return -errno;
	r = host_populate(fd, memory, size);
	if (r == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		r = -errno;
	if (r < 0) {
		munmap(memory, size);
		return r;
	}
	host_file_refuse_holes(fd);
	*ret_memory = memory;
	return take_fd(&fd);
}

static int block_new_host(struct block **ret_block, struct memory *memory, uint64_t size,
			  enum guard guard)
{
	_cleanup_free_ struct block *block = NULL;
	_cleanup_close_ int fd = -1;
	int r;

	r = block_make(&block, memory, PLACE_HOST, size, guard);
	if (r < 0)
		return r;
	fd = host_memfd(block->size, &block->memory);
	if (fd < 0)
		return fd;
	r = block_take_address(memory, block);
	if (r < 0) {
		munmap(block->memory, block->size);
		return r;
	}
	block->fd = take_fd(&fd);
	*ret_block = take_ptr(block);
	return 0;
}

uint64_t block_granularity(const struct memory *memory, uint32_t place)
{
	return place == PLACE_HOST ? (uint64_t)sysconf(_SC_PAGESIZE)
				   : memory->granularity;
}

uint64_t block_size_for(const struct memory *memory, uint32_t place, uint64_t size)
{
	uint64_t granularity = block_granularity(memory, place);

	return size > UINT64_MAX - granularity ? size : align_up(size, granularity);
}

int block_new(struct block **ret_block, struct memory *memory, uint32_t place,
	      uint64_t size, enum guard guard, struct cuda_failure *failure)
{
	struct block *block = NULL;
	int r;

	if (place == PLACE_HOST)
		r = block_new_host(&block, memory, size, guard);
	else
		r = block_new_device(&block, memory, place, size, guard, failure);
	if (r < 0)
		return r;
	r = block_keep(memory, block);
	if (r < 0) {
		block_free(memory, block);
		return r;
	}
	*ret_block = block;
	return 0;
}

/* Takes the addresses of a block that is there. Returns: 0; -EINVAL. */
static int block_retake_address(struct memory *memory, struct block *block)
{
	int r;

	pthread_mutex_lock(&memory->lock);
	r = address_space_take(block_space(memory, block),
			       block->address - block_span_before(block),
			       block_span(block));
	if (r == 0) {
		*block_bytes(memory, block) += block->size;
		memory->n_blocks++;
	}
	pthread_mutex_unlock(&memory->lock);
	return r;
}

int block_restore(struct block **ret_block, struct memory *memory, uint32_t index,
		  const struct block_record *record, int fd)
{
	_cleanup_free_ struct block *block = calloc(1, sizeof(*block));
	int r;

	if (!block)
		return -ENOMEM;
	if (record->place != PLACE_HOST && record->place >= memory->n_devices)
		return -EINVAL;
	block->address = record->address;
	block->size = record->size;
	block->place = record->place;
	block->guard = (enum guard)record->guard;
	block->given = block_is_host(block);
	block->backing = record->backing;
	block->record = index;
	block->record_generation = record->head.generation;
	block->fd = fd;
	r = block_retake_address(memory, block);
	if (r == 0)
		*ret_block = take_ptr(block);
	return r;
}

int block_map(struct block *block)
{
	void *mapped;

	if (!block_is_host(block) || block->memory)
		return 0;
	mapped = huge_pages_map(block->fd, block->size);
	if (mapped == MAP_FAILED)
		return -errno;
	block->memory = mapped;
	return 0;
}

uint64_t block_address_for(const struct block *block, uint64_t size)
{
	return block->address + (block->guard ? block->size - size : 0);
}

bool block_is_host(const struct block *block)
{
	return block->place == PLACE_HOST;
}

uint32_t block_device(const struct block *block)
{
	return block_is_host(block) ? 0 : block->place;
}

uint8_t *block_bytes_at(const struct block *block, uint64_t address)
{
	return (uint8_t *)block->memory + (address - block->address);
}

void memory_close_backing(struct memory *memory, uint32_t backing)
{
	void (*close)(uint32_t backing) =
		__atomic_load_n(&memory->backing_close, __ATOMIC_ACQUIRE);

	if (backing && close)
		close(backing);
}

void block_close_backing(struct memory *memory, struct block *block)
{
	memory_close_backing(memory, block->backing);
	block->backing = 0;
}

void block_free(struct memory *memory, struct block *block)
{
	if (block->memory)
		munmap(block->memory, block->size);
	block_close_backing(memory, block);
	block_unkeep(memory, block);
	if (block_is_host(block))
		host_files_settle(&memory->host_files);
	close(block->fd);
	block_give_address(memory, block);
	while (block->guests) {
		struct guest *guest = block->guests;

		block->guests = guest->next;
		__atomic_sub_fetch(guest->n_guests, 1, __ATOMIC_RELAXED);
		free(guest);
	}
	free(block);
}

/* ---- guests ---- */

static struct guest *guest_find(struct block *block, const void *worker)
{
	struct guest *guest;

	LL_SEARCH_SCALAR(block->guests, guest, worker, worker);
	return guest;
}

struct guest *block_guest(struct memory *memory, struct block *block, const void *worker,
			  unsigned int *n_guests)
{
	struct guest *guest;

	pthread_mutex_lock(&memory->lock);
	guest = guest_find(block, worker);
	if (!guest && n_guests) {
		guest = calloc(1, sizeof(*guest));
		if (guest) {
			guest->worker = worker;
			guest->n_guests = n_guests;
			__atomic_add_fetch(n_guests, 1, __ATOMIC_RELAXED);
			LL_PREPEND(block->guests, guest);
		}
	}
	pthread_mutex_unlock(&memory->lock);
	return guest;
}

void block_forget_guest(struct memory *memory, struct block *block, const void *worker)
{
	struct guest *guest;

	pthread_mutex_lock(&memory->lock);
	guest = guest_find(block, worker);
	if (guest) {
		LL_DELETE(block->guests, guest);
		__atomic_sub_fetch(guest->n_guests, 1, __ATOMIC_RELAXED);
		free(guest);
	}
	pthread_mutex_unlock(&memory->lock);
}

int block_guests(struct memory *memory, const struct block *block,
		 const void ***ret_workers)
{
	const struct guest *guest;
	int n;

	pthread_mutex_lock(&memory->lock);
	LL_COUNT(block->guests, guest, n);
	*ret_workers = n ? calloc((size_t)n, sizeof(**ret_workers)) : NULL;
	n = n && !*ret_workers ? -ENOMEM : 0;
	if (*ret_workers)
		LL_FOREACH (block->guests, guest)
			(*ret_workers)[n++] = guest->worker;
	pthread_mutex_unlock(&memory->lock);
	return n;
}

uint64_t memory_device_bytes(struct memory *memory, uint32_t device)
{
	uint64_t bytes;

	pthread_mutex_lock(&memory->lock);
	bytes = memory->device_bytes[device];
	pthread_mutex_unlock(&memory->lock);
	return bytes;
}

/* SPDX-License-Identifier: MIT */
/* Blocks and slabs on the software GPU; each test has a separate software machine. */
#include "memory/slab.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <gpumem/wire.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/text.h"
#include "cuda/driver.h"
#include "cuda/failure.h"
#include "memory/block.h"
#include "record/types.h"

#define MIB ((uint64_t)1 << 20)
/* Device memory of the software machine. */
#define MACHINE_MEMORY (128 * MIB)

static struct memory memory;
static struct cuda_driver *driver;

static void start(void)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	struct cuda_failure failure = CUDA_FAILURE_NONE;
	char options[128];

	snprintf(options, sizeof(options), "devices=2:memory=128M:machine=memory-%d",
		 getpid());
	setenv("GPUMEM_SOFTGPU", options, 1);
	cr_assert(eq(int, cuda_driver_open(getenv("GPUMEM_DRIVER"), &driver, &why), 0),
		  "%s", text_string(&why));
	cr_assert(eq(int, memory_init(&memory, driver, 2, &failure), 0));
}

static void stop(void)
{
	memory_deinit(&memory);
	cuda_driver_free(driver);
}

TestSuite(memory, .init = start, .fini = stop, .timeout = 60);

static struct block *block_of(uint64_t size)
{
	struct block *block = NULL;

	cr_assert(eq(int, block_new(&block, &memory, 0, size, GUARD_NONE, NULL), 0));
	return block;
}

static void give_back(struct block *block)
{
	block_free(&memory, block);
}

/* All memory of the device can be allocated, so no block is left. */
static void expect_all_free(uint32_t device)
{
	struct block *block = NULL;

	cr_assert(eq(int,
		     block_new(&block, &memory, device, MACHINE_MEMORY, GUARD_NONE, NULL),
		     0));
	give_back(block);
	cr_assert(eq(u64, memory_device_bytes(&memory, device), 0));
}

Test(memory, block_is_rounded_up_and_counted)
{
	struct block *block = block_of(1);

	cr_assert(eq(u64, block->size, 2 * MIB));
	cr_assert(eq(u64, block->address % (2 * MIB), 0));
	cr_assert(ge(u64, block->address, WIRE_DEVICE_BASE));
	cr_assert(eq(u64, memory_device_bytes(&memory, 0), 2 * MIB));
	cr_assert(eq(u64, memory_device_bytes(&memory, 1), 0));
	give_back(block);
	expect_all_free(0);
}

Test(memory, devices_have_ranges_of_their_own)
{
	struct block *first = block_of(1), *second = NULL;

	cr_assert(eq(int, block_new(&second, &memory, 1, 1, GUARD_NONE, NULL), 0));
	cr_assert(eq(u64, second->address - first->address, WIRE_DEVICE_SPAN));
	give_back(first);
	give_back(second);
}

Test(memory, full_device_says_which_call_failed_and_keeps_nothing)
{
	struct cuda_failure failure = CUDA_FAILURE_NONE;
	struct block *block = block_of(MACHINE_MEMORY), *more = NULL;

	cr_assert(
		eq(int, block_new(&more, &memory, 0, 1, GUARD_NONE, &failure), -ENOMEM));
	cr_assert(eq(ptr, more, NULL));
	cr_assert(ge(int, failure.call, 0));
	cr_assert(eq(str, (char *)cuda_call_name(failure.call), "cuMemCreate"));
	cr_assert(eq(u64, memory.n_blocks, 1));
	give_back(block);
	expect_all_free(0);
}

Test(memory, sizes_beyond_any_machine_are_out_of_memory)
{
	struct block *block = NULL;

	cr_assert(eq(int, block_new(&block, &memory, 0, UINT64_MAX, GUARD_NONE, NULL),
		     -ENOMEM));
	cr_assert(eq(int,
		     block_new(&block, &memory, 0, WIRE_DEVICE_SPAN, GUARD_NONE, NULL),
		     -ENOMEM));
	cr_assert(eq(int,
		     block_new(&block, &memory, PLACE_HOST, UINT64_MAX, GUARD_NONE, NULL),
		     -ENOMEM));
	cr_assert(eq(u64, memory.n_blocks, 0));
}

Test(memory, exported_block_is_a_descriptor_of_its_size)
{
	struct block *block = block_of(3 * MIB);
	struct stat stat;
	int fd = block_share(block);

	cr_assert(ge(int, fd, 0));
	cr_assert(eq(int, fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC));
	cr_assert(eq(int, fstat(fd, &stat), 0));
	cr_assert(ge(u64, (uint64_t)stat.st_size, block->size));
	close(fd);
	give_back(block);
}

Test(memory, host_block_is_sealed_zeroed_and_shared)
{
	struct block *block = NULL;
	uint8_t *mapped;
	int fd;

	cr_assert(eq(int, block_new(&block, &memory, PLACE_HOST, 5000, GUARD_NONE, NULL),
		     0));
	cr_assert(eq(u64, block->size, 8192));
	cr_assert(eq(u64, memory.host_bytes, 8192));
	fd = block_share(block);
	cr_assert(eq(int, ftruncate(fd, 0), -1));
	cr_assert(eq(int, ftruncate(fd, 1 << 20), -1));
	mapped = mmap(NULL, block->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert(ne(ptr, mapped, MAP_FAILED));
	cr_assert(eq(int, mapped[4999], 0));
	mapped[4999] = 7;
	cr_assert(eq(int, ((uint8_t *)block->memory)[4999], 7));
	munmap(mapped, block->size);
	close(fd);
	give_back(block);
	cr_assert(eq(u64, memory.host_bytes, 0));
}

/* ---- guards ---- */

static struct block *guarded(uint32_t place, uint64_t size, enum guard guard)
{
	struct block *block = NULL;

	cr_assert(eq(int, block_new(&block, &memory, place, size, guard, NULL), 0));
	return block;
}

static bool touches(const struct block *block, uint64_t from, uint64_t to)
{
	return block->address < to && from < block->address + block->size;
}

/* Fills the rest of a small address space with blocks, none of them in a range. */
static void expect_empty(uint32_t place, uint64_t from, uint64_t to)
{
	struct block *others[32];

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		others[i] = guarded(place, 1 + (i % 3) * MIB, GUARD_NONE);
		cr_assert(not(touches(others[i], from, to)), "block %zu at 0x%llx", i,
			  (unsigned long long)others[i]->address);
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		give_back(others[i]);
}

Test(memory, nothing_is_mapped_behind_a_guarded_block)
{
	static const uint64_t sizes[] = { 1, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 4 * MIB };
	static const uint32_t places[] = { 0, PLACE_HOST };

	for (size_t i = 0; i < 2 * ARRAY_SIZE(sizes); i++) {
		uint32_t place = places[i % 2];
		struct block *before = guarded(place, 1, GUARD_NONE);
		struct block *block = guarded(place, sizes[i / 2], GUARD_END);
		uint64_t end = block->address + block->size;

		cr_assert(not(touches(before, end, end + SPACE_UNIT)));
		expect_empty(place, end, end + SPACE_UNIT);
		give_back(before);
		give_back(block);
	}
	expect_all_free(0);
}

Test(memory, nothing_is_mapped_around_a_block_guarded_at_both_ends)
{
	struct block *before = guarded(0, 1, GUARD_NONE);
	struct block *block = guarded(0, 4 * MIB, GUARD_BOTH);
	uint64_t start = block->address, end = start + block->size;

	cr_assert(not(touches(before, start - SPACE_UNIT, start)));
	expect_empty(0, start - SPACE_UNIT, start);
	expect_empty(0, end, end + SPACE_UNIT);
	give_back(before);
	give_back(block);
	expect_all_free(0);
}

Test(memory, guarded_allocation_ends_with_its_block)
{
	static const uint64_t sizes[] = {
		1, 4, 12, 4000, 4096, MIB, 2 * MIB, 3 * MIB + 8
	};

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct block *block = guarded(0, sizes[i], GUARD_END);
		uint64_t address = block_address_for(block, sizes[i]);
		/* the largest power of two that divides the size */
		uint64_t alignment = sizes[i] & -sizes[i];

		cr_assert(eq(u64, address + sizes[i], block->address + block->size));
		cr_assert(eq(u64, address % alignment, 0));
		give_back(block);
	}
}

/* A guard takes addresses, which come back with the block. */
Test(memory, guards_leave_no_hole_in_the_address_space)
{
	uint64_t first = 0;

	for (int i = 0; i < 1000; i++) {
		enum guard guard = i % 2 ? GUARD_END : GUARD_BOTH;
		struct block *block = guarded(0, 2 * MIB * (1 + i % 5), guard);
		struct block *plain = guarded(0, 4 * MIB, GUARD_NONE);

		give_back(block);
		give_back(plain);
	}
	struct block *last = guarded(0, 1, GUARD_NONE);

	first = last->address;
	give_back(last);
	cr_assert(eq(u64, first, WIRE_DEVICE_BASE));
}

/* ---- cells ---- */

struct cell {
	struct block *block;
	uint32_t cell;
	uint64_t address, size;
};

/* Takes a cell, from a new block when none is left. */
static int cell_take(struct slab_pool *pool, uint32_t place, struct cell *cell,
		     struct cuda_failure *failure)
{
	uint64_t size = place == PLACE_HOST ? HOST_SLAB_SIZE : SLAB_SIZE;
	struct block *block;
	int r = cell_get(pool, place, cell->size, &cell->block, &cell->cell,
			 &cell->address);

	if (r != -EAGAIN)
		return r;
	r = block_new(&block, &memory, place, size, GUARD_NONE, failure);
	if (r < 0)
		return r;
	return cell_get_in(pool, block, cell->size, &cell->block, &cell->cell,
			   &cell->address);
}

static struct cell cell_at(struct slab_pool *pool, uint32_t place, uint64_t size)
{
	struct cell cell = { .size = size };

	cr_assert(eq(int, cell_take(pool, place, &cell, NULL), 0));
	return cell;
}

static struct cell cell_of(struct slab_pool *pool, uint64_t size)
{
	return cell_at(pool, 0, size);
}

static void cell_back(struct slab_pool *pool, const struct cell *cell)
{
	struct block *block = cell_put(pool, cell->block, cell->cell);

	if (block)
		give_back(block);
}

Test(memory, cells_of_all_sizes_stand_inside_their_block_and_apart)
{
	enum { N = 200 };
	struct slab_pool *pool = slab_pool_new(&memory);
	struct cell cells[N];
	uint64_t size = 1;

	for (int i = 0; i < N; i++) {
		if (i % 5 == 0)
			size = size * 3 / 2 + 1;
		if (size > CELL_MAX)
			size = i % 2 ? 1 : CELL_MAX / 64;
		cells[i] = cell_of(pool, size);
		cr_assert(eq(u64, cells[i].address % 256, 0));
		cr_assert(ge(u64, cells[i].address, cells[i].block->address));
		cr_assert(le(u64, cells[i].address + size,
			     cells[i].block->address + cells[i].block->size));
	}
	for (int i = 0; i < N; i++) {
		for (int j = 0; j < i; j++)
			cr_assert(cells[i].address + cells[i].size <= cells[j].address ||
				  cells[j].address + cells[j].size <= cells[i].address);
	}
	for (int i = 0; i < N; i++)
		cell_back(pool, &cells[i]);
	slab_pool_free(pool);
	expect_all_free(0);
}

Test(memory, every_cell_of_a_slab_is_dealt_before_another_slab_is_made)
{
	enum { N = 2 * 8192 };
	static struct cell cells[N];
	struct slab_pool *pool = slab_pool_new(&memory);

	for (int i = 0; i < N; i++) {
		cells[i] = cell_of(pool, 256);
		cr_assert(eq(u64, memory.n_blocks, i < N / 2 ? 1 : 2));
	}
	for (int i = 0; i < N; i++)
		cell_back(pool, &cells[i]);
	slab_pool_free(pool);
	expect_all_free(0);
}

Test(memory, a_size_that_does_not_divide_a_slab_leaves_the_rest_unused)
{
	enum { N = 2 * (int)MIB / 768 };
	static struct cell cells[N + 1];
	struct slab_pool *pool = slab_pool_new(&memory);

	for (int i = 0; i <= N; i++) {
		cells[i] = cell_of(pool, 700);
		cr_assert(eq(u64, memory.n_blocks, i < N ? 1 : 2));
		cr_assert(le(u64, cells[i].address + 768,
			     cells[i].block->address + cells[i].block->size));
	}
	for (int i = 0; i <= N; i++)
		cell_back(pool, &cells[i]);
	slab_pool_free(pool);
}

Test(memory, largest_cells_are_two_to_a_slab)
{
	struct slab_pool *pool = slab_pool_new(&memory);
	struct cell a = cell_of(pool, CELL_MAX), b = cell_of(pool, CELL_MAX);

	cr_assert(eq(ptr, a.block, b.block));
	cr_assert(eq(u64, b.address - a.address, CELL_MAX));
	cell_back(pool, &a);
	cell_back(pool, &b);
	slab_pool_free(pool);
}

Test(memory, last_empty_slab_of_a_size_is_kept_until_it_is_asked_back)
{
	struct slab_pool *pool = slab_pool_new(&memory);
	struct cell cell = cell_of(pool, 256), again;
	struct block *block;

	cr_assert(eq(ptr, cell_put(pool, cell.block, cell.cell), NULL));
	cr_assert(eq(u64, memory.n_blocks, 1));
	again = cell_of(pool, 256);
	cr_assert(eq(u64, again.address, cell.address));
	cr_assert(eq(ptr, slab_pool_shrink(pool, 0, INT64_MAX), NULL));
	cr_assert(eq(ptr, cell_put(pool, again.block, again.cell), NULL));
	cr_assert(eq(ptr, slab_pool_shrink(pool, 1, INT64_MAX), NULL));
	block = slab_pool_shrink(pool, 0, INT64_MAX);
	cr_assert(eq(ptr, block, cell.block));
	cr_assert(eq(ptr, block->slab, NULL));
	cr_assert(eq(ptr, slab_pool_shrink(pool, 0, INT64_MAX), NULL));
	give_back(block);
	slab_pool_free(pool);
	expect_all_free(0);
}

Test(memory, host_and_device_memory_have_slabs_of_their_own)
{
	struct slab_pool *pool = slab_pool_new(&memory);
	struct cell device = cell_of(pool, 1), a = cell_at(pool, PLACE_HOST, 1), b;
	struct block *block;

	cr_assert(eq(u32, device.block->place, 0));
	cr_assert(eq(u32, a.block->place, PLACE_HOST));
	b = cell_at(pool, PLACE_HOST, 256);
	cr_assert(eq(ptr, b.block, a.block));
	*block_bytes_at(a.block, a.address) = 1;
	cr_assert(eq(u8, *block_bytes_at(b.block, b.address), 0));
	cell_back(pool, &a);
	cell_back(pool, &b);
	block = slab_pool_shrink(pool, PLACE_HOST, INT64_MAX);
	cr_assert(eq(ptr, block, a.block));
	give_back(block);
	cell_back(pool, &device);
	slab_pool_free(pool);
	expect_all_free(0);
}

Test(memory, an_empty_slab_beside_another_goes)
{
	struct slab_pool *pool = slab_pool_new(&memory);
	struct cell cells[4];
	struct block *block;

	for (int i = 0; i < 4; i++)
		cells[i] = cell_of(pool, CELL_MAX);
	cr_assert(ne(ptr, cells[0].block, cells[2].block));
	/* The second slab is full, so only the first has a free cell. */
	cr_assert(eq(ptr, cell_put(pool, cells[0].block, cells[0].cell), NULL));
	cr_assert(eq(ptr, cell_put(pool, cells[1].block, cells[1].cell), NULL));
	cr_assert(eq(ptr, cell_put(pool, cells[2].block, cells[2].cell), NULL));
	block = cell_put(pool, cells[3].block, cells[3].cell);
	cr_assert(eq(ptr, block, cells[3].block));
	give_back(block);
	slab_pool_free(pool);
	expect_all_free(0);
}

Test(memory, full_device_refuses_a_cell_and_the_pool_goes_on)
{
	struct block *rest = block_of(MACHINE_MEMORY - 2 * MIB);
	struct slab_pool *pool = slab_pool_new(&memory);
	struct cuda_failure failure = CUDA_FAILURE_NONE;
	struct cell a = cell_of(pool, CELL_MAX), b, none = { .size = 256 };

	cr_assert(eq(int, cell_take(pool, 0, &none, &failure), -ENOMEM));
	cr_assert(ge(int, failure.call, 0));
	b = cell_of(pool, CELL_MAX);
	cell_back(pool, &a);
	cell_back(pool, &b);
	give_back(rest);
	slab_pool_free(pool);
	expect_all_free(0);
}

/* ---- against a model ---- */

Test(memory, random_cells_never_overlap_and_all_comes_back)
{
	enum { HELD = 300, STEPS = 20000 };
	static struct cell held[HELD];
	struct slab_pool *pool = slab_pool_new(&memory);
	uint32_t state = 3;

	for (int step = 0; step < STEPS; step++) {
		struct cell *cell;

		state = state * 1664525 + 1013904223;
		cell = &held[(state >> 8) % HELD];
		if (cell->block) {
			cell_back(pool, cell);
			cell->block = NULL;
			continue;
		}
		cell->size = 1 + (state >> 4) % (64u << ((state >> 28) % 10));
		if (cell_take(pool, 0, cell, NULL) < 0) {
			cell->block = NULL;
			continue;
		}
		for (int i = 0; i < HELD; i++) {
			const struct cell *other = &held[i];

			if (other->block && other != cell &&
			    cell->address < other->address + other->size &&
			    other->address < cell->address + cell->size)
				cr_fail("two cells at %#llx",
					(unsigned long long)cell->address);
		}
	}
	for (int i = 0; i < HELD; i++) {
		if (held[i].block)
			cell_back(pool, &held[i]);
	}
	slab_pool_free(pool);
	expect_all_free(0);
}

/* Address space of the process: there is room for a mapping of this size, or none. */
static void room_for_mappings(bool room)
{
	struct rlimit limit;

	cr_assert(eq(int, getrlimit(RLIMIT_AS, &limit), 0));
	limit.rlim_cur = room ? limit.rlim_max : 0;
	cr_assert(eq(int, setrlimit(RLIMIT_AS, &limit), 0));
}

Test(memory, a_restored_host_block_is_mapped_when_it_is_wanted)
{
	struct block_record record = { .address = WIRE_HOST_BASE,
				       .size = 4096,
				       .place = PLACE_HOST };
	int fd = memfd_create("host", MFD_CLOEXEC);
	struct block *block = NULL;

	cr_assert(eq(int, ftruncate(fd, 4096), 0));
	cr_assert(eq(sz, (size_t)pwrite(fd, "kept", 4, 10), 4));
	cr_assert(eq(int, block_restore(&block, &memory, 0, &record, fd), 0));
	cr_assert(eq(ptr, block->memory, NULL));

	room_for_mappings(false);
	cr_assert(eq(int, block_map(block), -ENOMEM));
	room_for_mappings(true);
	cr_assert(eq(int, block_map(block), 0));
	cr_assert(eq(int, memcmp(block_bytes_at(block, WIRE_HOST_BASE + 10), "kept", 4),
		     0));
	give_back(block);
}

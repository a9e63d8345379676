/* SPDX-License-Identifier: MIT */
#include "channel/staging.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define N_SLOTS 3

static struct staging staging;

static void setup(void)
{
	cr_assert(eq(int, staging_init(&staging, "test", N_SLOTS), 0));
}

static void teardown(void)
{
	staging_deinit(&staging);
}

TestSuite(staging, .init = setup, .fini = teardown);

Test(staging, every_slot_is_given_out_once)
{
	unsigned int seen = 0;

	for (unsigned int i = 0; i < N_SLOTS; i++)
		seen |= 1u << staging_get(&staging);
	cr_assert(eq(u32, seen, 7));
	cr_assert(eq(int, staging_get(&staging), -EAGAIN));
	for (unsigned int i = 0; i < N_SLOTS; i++)
		staging_put(&staging, i);
}

Test(staging, slot_given_back_is_the_next_one_given_out)
{
	int slot = staging_get(&staging);

	staging_put(&staging, (unsigned int)slot);
	cr_assert(eq(int, staging_get(&staging), slot));
	staging_put(&staging, (unsigned int)slot);
}

/* Pages of a slot that have memory. */
static unsigned int resident(unsigned int slot)
{
	unsigned char pages[STAGING_SLOT / 4096];
	unsigned int n = 0;

	cr_assert(eq(int,
		     mincore(staging_payload(&staging, slot) - STAGING_HEADER,
			     STAGING_SLOT, pages),
		     0));
	for (size_t i = 0; i < sizeof(pages); i++)
		n += pages[i] & 1;
	return n;
}

Test(staging, slot_has_all_its_pages_once_it_is_taken)
{
	unsigned int slots[2];

	cr_assert(eq(u32, resident(0) + resident(1), 0));
	for (int i = 0; i < 2; i++) {
		slots[i] = (unsigned int)staging_get(&staging);
		cr_assert(eq(u32, resident(slots[i]), STAGING_SLOT / 4096));
	}
	staging_put(&staging, slots[0]);
	staging_put(&staging, slots[1]);
}

Test(staging, payloads_do_not_touch_and_have_room_for_a_header)
{
	for (unsigned int i = 0; i < N_SLOTS; i++) {
		uint64_t offset = staging_offset(i);

		cr_assert(eq(u64, offset % 4096, 0));
		cr_assert(ge(u64, offset, i * (uint64_t)STAGING_SLOT + STAGING_HEADER));
		cr_assert(le(u64, offset + WIRE_TRANSFER_MAX,
			     (i + 1) * (uint64_t)STAGING_SLOT));
		memset(staging_payload(&staging, i), 0xff, WIRE_TRANSFER_MAX);
	}
}

Test(staging, size_is_sealed)
{
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

	cr_assert(eq(int, fcntl(staging.fd, F_GET_SEALS) & seals, seals));
	cr_assert(eq(int, ftruncate(staging.fd, 0), -1));
	cr_assert(eq(int, ftruncate(staging.fd, (off_t)staging.size * 2), -1));
}

/* SPDX-License-Identifier: MIT */
#include "api/draft.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/def.h"

#define MOST (5 * DRAFT_PIECE)

static struct draft draft;
static uint8_t expected[MOST], found[MOST + 1];
static uint64_t size;

/* A base of random bytes, of two pieces and a half. */
static void begin(void)
{
	int base = memfd_create("base", MFD_CLOEXEC);

	srand(1);
	size = 5 * DRAFT_PIECE / 2;
	for (uint64_t i = 0; i < size; i++)
		expected[i] = (uint8_t)rand();
	cr_assert(eq(i64, pwrite(base, expected, size, 0), (int64_t)size));
	draft_init(&draft, base, size);
}

TestSuite(draft, .init = begin, .timeout = 60);

static void check(void)
{
	cr_assert(eq(u64, draft.size, size));
	cr_assert(eq(i64, draft_read(&draft, 0, found, sizeof(found)), (int64_t)size));
	cr_assert(eq(int, memcmp(found, expected, size), 0));
}

static void put(uint64_t offset, uint64_t length)
{
	if (length && offset > size)
		memset(expected + size, 0, offset - size);
	for (uint64_t i = 0; i < length; i++)
		expected[offset + i] = (uint8_t)rand();
	cr_assert(eq(int, draft_write(&draft, offset, expected + offset, length), 0));
	size = length ? MAX(size, offset + length) : size;
}

static void resize(uint64_t to)
{
	if (to > size)
		memset(expected + size, 0, to - size);
	cr_assert(eq(int, draft_resize(&draft, to), 0));
	size = to;
}

/* Returns: the number of pieces that the call copied. */
static unsigned int seal(void)
{
	unsigned int n = 0;
	int r, fd = -1;

	while ((r = draft_copy(&draft)) > 0)
		n++;
	cr_assert(eq(int, r, 0));
	cr_assert(draft_is_whole(&draft));
	cr_assert(eq(int, draft_seal(&draft, &fd), 0));
	cr_assert(eq(i64, pread(fd, found, sizeof(found), 0), (int64_t)size));
	cr_assert(eq(int, memcmp(found, expected, size), 0));
	cr_assert(eq(i64, pwrite(fd, "x", 1, 0), -1));
	close(fd);
	return n;
}

Test(draft, a_write_copies_the_pieces_that_it_touches)
{
	put(DRAFT_PIECE + 5, 1);
	cr_assert(not(draft_is_whole(&draft)));
	check();
	cr_assert(eq(uint, seal(), 2));
	put(DRAFT_PIECE - 1, 2);
	check();
	cr_assert(eq(uint, seal(), 1));
	check();
}

Test(draft, bytes_that_were_cut_off_are_zeros_when_they_come_back)
{
	resize(DRAFT_PIECE + 100);
	resize(3 * DRAFT_PIECE);
	check();
	put(DRAFT_PIECE + 200, 1);
	check();
	cr_assert(eq(uint, seal(), 1));
	check();
}

Test(draft, sealed_contents_are_kept_until_a_draft_over_them_is_whole)
{
	uint64_t sealed;

	put(0, 1);
	cr_assert(eq(u64, draft_keeps(&draft), 0));
	seal();
	sealed = size;
	cr_assert(eq(u64, draft_keeps(&draft), sealed));
	put(0, 1);
	resize(2 * DRAFT_PIECE);
	cr_assert(eq(u64, draft_keeps(&draft), sealed));
	resize(0);
	cr_assert(eq(u64, draft_keeps(&draft), 0));
	cr_assert(eq(u64, draft.base_size, 0));
	seal();
	check();
}

static uint64_t used(void)
{
	struct stat status;

	cr_assert(eq(int, fstat(draft.fd, &status), 0));
	return (uint64_t)status.st_blocks * 512;
}

Test(draft, no_call_frees_more_than_a_few_pieces)
{
	uint64_t before;
	int r;

	for (uint64_t to = 4 * DRAFT_PIECE + 5; to > 1; to /= 5) {
		put(0, MOST);
		before = used();
		resize(to);
		cr_expect(le(u64, before - used(), 3 * DRAFT_PIECE));
		check();
		resize(MOST - 1);
		check();
	}
	put(0, MOST);
	resize(0);
	do {
		before = used();
		r = draft_copy(&draft);
		cr_expect(le(u64, before - used(), DRAFT_PIECE));
	} while (r > 0);
	cr_assert(eq(int, r, 0));
	cr_expect(eq(u64, used(), 0));
	check();
	seal();
}

Test(draft, base_that_is_left_is_the_callers)
{
	uint64_t bytes, sealed;
	int fd;

	put(0, 1);
	cr_expect(eq(int, draft_take_left(&draft, &bytes), -1));
	seal();
	sealed = size;
	put(0, 1);
	resize(0);
	fd = draft_take_left(&draft, &bytes);
	cr_expect(ge(int, fd, 0));
	cr_expect(eq(u64, bytes, sealed));
	close(fd);
	check();
}

Test(draft, contents_are_those_of_a_plain_file)
{
	put(0, 1);
	for (unsigned int i = 0; i < 300; i++) {
		uint64_t offset = (uint64_t)rand() % (MOST - DRAFT_PIECE);

		switch (rand() % 8) {
		case 0:
			resize((uint64_t)rand() % MOST);
			break;
		case 1:
			seal();
			break;
		case 2:
			cr_assert(ge(int, draft_copy(&draft), 0));
			break;
		default:
			put(offset, (uint64_t)rand() % (rand() % 2 ? 100 : DRAFT_PIECE));
		}
		check();
	}
}

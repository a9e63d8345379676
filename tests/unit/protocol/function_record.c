/* SPDX-License-Identifier: MIT */
/* Records of functions: a written record reads back, and a wrong field is refused. */
#include "protocol/function_record.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>

static const struct record_param params[] = { { 0, 4 }, { 4, 4 }, { 8, 8 }, { 24, 100 } };

static const struct record good = {
	.name = "saxpy",
	.has_params = true,
	.n_params = ARRAY_SIZE(params),
	.params = params,
};

/* 16 bytes: size, name_size, n_params, has_params; then the parameters, then the name. */
static _Alignas(8) uint8_t bytes[1 << 20];

static size_t written(const struct record *record)
{
	long size;

	memset(bytes, 0xee, sizeof(bytes));
	size = record_write(record, bytes, sizeof(bytes));
	cr_assert(gt(long, size, 0));
	return (size_t)size;
}

static bool is_read(size_t size)
{
	struct record record;
	long r = record_read(&record, bytes, size);

	cr_assert(r > 0 || r == -EBADMSG);
	return r > 0;
}

static uint32_t *field(unsigned int number)
{
	return (uint32_t *)bytes + number;
}

Test(record, what_is_written_is_read)
{
	size_t size = written(&good);
	struct record record;

	cr_assert(eq(sz, size, record_size(&good)));
	cr_assert(eq(sz, size % 8, 0));
	cr_assert(eq(long, record_read(&record, bytes, sizeof(bytes)), (long)size));
	cr_assert(eq(str, (char *)record.name, (char *)"saxpy"));
	cr_assert(record.has_params);
	cr_assert(eq(u32, record.n_params, 4));
	cr_assert(eq(int, memcmp(record.params, params, sizeof(params)), 0));
}

Test(record, without_parameters_is_not_the_same_as_unknown_ones)
{
	struct record record = { .name = "f", .has_params = true }, found;

	written(&record);
	cr_assert(gt(long, record_read(&found, bytes, sizeof(bytes)), 0));
	cr_assert(found.has_params && !found.n_params);
	record.has_params = false;
	written(&record);
	cr_assert(gt(long, record_read(&found, bytes, sizeof(bytes)), 0));
	cr_assert(not(found.has_params));
}

Test(record, needs_its_room)
{
	cr_assert(eq(long, record_write(&good, bytes, record_size(&good) - 1), -ENOSPC));
	cr_assert(gt(long, record_write(&good, bytes, record_size(&good)), 0));
}

Test(record, that_is_cut_off_is_none)
{
	size_t size = written(&good);

	for (size_t cut = 0; cut < size; cut++)
		cr_expect(not(is_read(cut)), "%zu", cut);
	cr_assert(is_read(size));
}

Test(record, with_a_wrong_size_is_none)
{
	static const uint32_t wrong[] = { 0, 8, 0x7ffffff8, UINT32_MAX };
	size_t size = written(&good);

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		for (unsigned int number = 0; number < 3; number++) {
			uint32_t was = *field(number);

			*field(number) = wrong[i];
			cr_expect(not(is_read(sizeof(bytes))), "field %u = %u", number,
				  wrong[i]);
			*field(number) = was;
		}
	}
	*field(0) += 8;
	cr_assert(not(is_read(sizeof(bytes))));
	*field(0) -= 8;
	*field(3) = 2;
	cr_assert(not(is_read(sizeof(bytes))));
	*field(3) = 0;
	cr_assert(not(is_read(sizeof(bytes))));
	*field(3) = 1;
	cr_assert(is_read(size));
}

Test(record, with_a_bad_name_is_none)
{
	size_t size = written(&good);
	char *name = (char *)bytes + 16 + sizeof(params);

	name[2] = '\0';
	cr_assert(not(is_read(size)));
	name[2] = 'x';
	name[5] = 'y';
	cr_assert(not(is_read(size)));
	name[5] = '\0';
	cr_assert(is_read(size));
	written(&(struct record){ .name = "", .has_params = true });
	cr_assert(not(is_read(sizeof(bytes))));
}

Test(record, with_parameters_that_cannot_be_is_none)
{
	static const struct record_param bad[][2] = {
		{ { 0, 0 }, { 4, 4 } },		    /* of no size */
		{ { 0, 8 }, { 4, 4 } },		    /* overlapping */
		{ { 8, 4 }, { 0, 4 } },		    /* backwards */
		{ { 0, 4 }, { 4, UINT32_MAX } },    /* endless */
		{ { 0, 4 }, { UINT32_MAX - 3, 4 } } /* out of the world */
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct record record = good;

		record.params = bad[i];
		record.n_params = 2;
		written(&record);
		cr_expect(not(is_read(sizeof(bytes))), "row %zu", i);
	}
}

Test(record, longest_name_and_most_parameters_fit_a_slot)
{
	static struct record_param many[32764];
	static char name[RECORD_NAME_MAX];
	struct record record = { name, true, ARRAY_SIZE(many), many };

	memset(name, 'n', sizeof(name) - 1);
	for (uint32_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = (struct record_param){ i, 1 };
	cr_assert(is_read(written(&record)));
}

Test(record, name_that_is_too_long_is_refused)
{
	static char name[RECORD_NAME_MAX + 1];
	struct record record = { .name = name };

	memset(name, 'n', RECORD_NAME_MAX);
	cr_assert(eq(long, record_write(&record, bytes, sizeof(bytes)), -ENAMETOOLONG));
}

/* Each record is a heap block of exact size, so a sanitizer sees reads beyond the end. */
Test(record, nothing_is_read_that_is_not_there)
{
	size_t size = written(&good);
	uint32_t state = 1;

	for (int i = 0; i < 50000; i++) {
		_cleanup_free_ uint8_t *copy = NULL;
		struct record record;
		size_t length;

		state = state * 1664525 + 1013904223;
		length = state % 4 ? size : state / 4 % (size + 1);
		copy = malloc(length + !length);
		memcpy(copy, bytes, length);
		for (uint32_t n = state >> 8 & 3; length && n; n--) {
			state = state * 1664525 + 1013904223;
			copy[(state >> 8) % length] = (uint8_t)(state >> 24);
		}
		if (record_read(&record, copy, length) > 0)
			cr_assert(le(sz, record_size(&record), length));
	}
}

/* SPDX-License-Identifier: MIT */
#include "base/number.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct row {
	const char *word;
	int r;
	uint64_t value;
};

typedef int parse_function(const char *word, uint64_t *ret_value);

static int scalar_bits(const char *word, uint64_t *ret_bits)
{
	struct scalar scalar;
	int r = scalar_parse(word, &scalar);

	if (r == 0)
		*ret_bits = scalar.bits;
	return r;
}

/* A failure leaves the result untouched. */
static void expect_rows(parse_function *parse, const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t value = 0x5a5a, expected = rows[i].r ? 0x5a5a : rows[i].value;
		int r = parse(rows[i].word, &value);

		cr_expect(eq(int, r, rows[i].r), "'%s'", rows[i].word);
		cr_expect(eq(u64, value, expected), "'%s'", rows[i].word);
	}
}

#define EXPECT(parse, ...)                                        \
	do {                                                      \
		static const struct row rows[] = { __VA_ARGS__ }; \
		expect_rows(parse, rows, ARRAY_SIZE(rows));       \
	} while (0)

/* clang-format off */
Test(number, decimal_and_hex_are_numbers)
{
	EXPECT(number_parse,
	       { "0", 0, 0 }, { "1", 0, 1 }, { "007", 0, 7 }, { "0x1f", 0, 31 },
	       { "0X1F", 0, 31 }, { "18446744073709551615", 0, UINT64_MAX },
	       { "0xffffffffffffffff", 0, UINT64_MAX });
}

Test(number, anything_else_is_no_number)
{
	EXPECT(number_parse,
	       { "", -EINVAL }, { "x", -EINVAL }, { "-1", -EINVAL }, { "+1", -EINVAL },
	       { " 1", -EINVAL }, { "1 ", -EINVAL }, { "0x", -EINVAL }, { "0xg", -EINVAL },
	       { "1.5", -EINVAL }, { "1e3", -EINVAL }, { "4K", -EINVAL });
}

Test(number, too_large_a_number_overflows)
{
	EXPECT(number_parse,
	       { "18446744073709551616", -EOVERFLOW }, { "0x10000000000000000", -EOVERFLOW });
}

Test(number, size_takes_a_unit_in_either_case)
{
	EXPECT(size_parse,
	       { "4096", 0, 4096 }, { "0x1000", 0, 4096 }, { "4K", 0, 4096 },
	       { "4k", 0, 4096 }, { "3M", 0, 3 << 20 }, { "2g", 0, 2ull << 30 },
	       { "1T", 0, 1ull << 40 }, { "0x2k", 0, 2048 }, { "0", 0, 0 },
	       { "16777215T", 0, 0xffffffull << 40 });
}

Test(number, size_takes_binary_and_decimal_units_as_dd_does)
{
	EXPECT(size_parse,
	       { "4KiB", 0, 4096 }, { "1GiB", 0, 1 << 30 }, { "1gib", 0, 1 << 30 },
	       { "1TiB", 0, 1ull << 40 }, { "4KB", 0, 4000 }, { "100MB", 0, 100000000 },
	       { "2GB", 0, 2000000000 }, { "1tb", 0, 1000000000000 }, { "3kB", 0, 3000 },
	       { "0x10KB", 0, 16000 });
}

Test(number, size_is_a_count_with_a_unit)
{
	EXPECT(size_parse,
	       { "16Mxf32", 0, 64 << 20 }, { "2kxbf16", 0, 4096 },
	       { "1MBxu8", 0, 1000000 }, { "1GiBxf64", 0, 8ull << 30 });
}

Test(number, fraction_has_a_size)
{
	EXPECT(size_parse_fraction,
	       { "1.5G", 0, 1536ull << 20 }, { ".5k", 0, 512 }, { "1.5GB", 0, 1500000000 },
	       { "1.5", -EINVAL }, { "0.1K", 0, 102 }, { "x", -EINVAL }, { "1e3", -EINVAL },
	       { "1.5Q", -EINVAL }, { "1.2.3M", -EINVAL }, { "0.0M", -EINVAL },
	       { "-1.5G", -EINVAL }, { "", -EINVAL }, { "inf", -EINVAL },
	       { "99999999999999999999G", -EINVAL });
}

Test(number, sizes_are_shown_as_people_read_them)
{
	static const struct {
		uint64_t size;
		const char *read, *typed;
	} rows[] = {
		{ 0, "0 bytes", "0" }, { 1, "1 byte", "1" }, { 1023, "1023 bytes", "1023" },
		{ 1024, "1 KiB", "1K" }, { 1536, "1.5 KiB", "1536" },
		{ 1048573, "1048573 bytes", "1048573" }, { 2 << 20, "2 MiB", "2M" },
		{ 1ull << 40, "1 TiB", "1T" }, { 3ull << 29, "1.5 GiB", "1536M" },
		{ 84923809793, "79.1 GiB (84923809793 bytes)", "84923809793" },
		{ 1ull << 60, "1 EiB", "1048576T" },
		{ UINT64_MAX, "16.0 EiB (18446744073709551615 bytes)",
		  "18446744073709551615" },
	};
	char text[64];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cr_expect(eq(str, (char *)size_text(rows[i].size), (char *)rows[i].read));
		cr_expect(eq(str, (char *)size_write(text, rows[i].size),
			     (char *)rows[i].typed));
	}
}

Test(number, size_is_a_count_of_any_type)
{
	EXPECT(size_parse,
	       { "3xi8", 0, 3 }, { "3xu8", 0, 3 }, { "3xi16", 0, 6 }, { "3xu16", 0, 6 },
	       { "3xi32", 0, 12 }, { "3xu32", 0, 12 }, { "3xi64", 0, 24 }, { "3xu64", 0, 24 },
	       { "3xf16", 0, 6 }, { "3xbf16", 0, 6 }, { "1024xf32", 0, 4096 },
	       { "3xf64", 0, 24 }, { "0x10xf32", 0, 64 });
}

Test(number, hex_that_reads_as_a_count_of_zero_is_refused)
{
	EXPECT(size_parse,
	       { "0xf32", -EINVAL }, { "0xf16", -EINVAL }, { "0xf64", -EINVAL },
	       { "0xbf16", -EINVAL });
}

Test(number, size_with_anything_behind_it_is_refused)
{
	EXPECT(size_parse,
	       { "", -EINVAL }, { "K", -EINVAL }, { "4KBx", -EINVAL }, { "4Ki", -EINVAL },
	       { "4B", -EINVAL }, { "4MxK", -EINVAL },{ "4P", -EINVAL }, { "4x", -EINVAL }, { "4xf33", -EINVAL },
	       { "4xf32x", -EINVAL }, { "4Xf32", -EINVAL }, { "-4K", -EINVAL },
	       { "1.5K", -EINVAL });
}

Test(number, size_over_64_bits_overflows)
{
	EXPECT(size_parse,
	       { "16777216T", -EOVERFLOW }, { "18446744073709551615K", -EOVERFLOW },
	       { "2305843009213693952xf64", -EOVERFLOW },
	       { "18446744073709551616", -EOVERFLOW });
}

Test(number, integers_keep_their_range)
{
	EXPECT(scalar_bits,
	       { "u8:255", 0, 255 }, { "u8:256", -ERANGE }, { "u8:-1", -ERANGE },
	       { "u8:-0", 0, 0 }, { "i8:127", 0, 127 }, { "i8:128", -ERANGE },
	       { "i8:-128", 0, 0x80 }, { "i8:-129", -ERANGE }, { "i8:-0x80", 0, 0x80 },
	       { "u16:0xffff", 0, 0xffff }, { "u16:65536", -ERANGE },
	       { "i16:-32768", 0, 0x8000 }, { "i16:32768", -ERANGE },
	       { "u32:4294967295", 0, UINT32_MAX }, { "u32:4294967296", -ERANGE },
	       { "i32:-1", 0, UINT32_MAX }, { "i32:-2147483649", -ERANGE },
	       { "u64:18446744073709551615", 0, UINT64_MAX },
	       { "u64:18446744073709551616", -ERANGE },
	       { "i64:-9223372036854775808", 0, 1ull << 63 },
	       { "i64:9223372036854775808", -ERANGE },
	       { "i64:-9223372036854775809", -ERANGE }, { "i32:+5", 0, 5 });
}

Test(number, what_is_no_scalar_is_refused)
{
	EXPECT(scalar_bits,
	       { "", -EINVAL }, { "5", -EINVAL }, { "u8", -EINVAL }, { "u8:", -EINVAL },
	       { "u7:1", -EINVAL }, { ":1", -EINVAL }, { "u8:1.0", -EINVAL },
	       { "u8:1K", -EINVAL }, { "i8:--1", -EINVAL }, { "i8:+-1", -EINVAL },
	       { "U8:1", -EINVAL }, { "f32:", -EINVAL }, { "f32: 1", -EINVAL },
	       { "f32:1x", -EINVAL }, { "f32:one", -EINVAL }, { "f16:1.0f", -EINVAL });
}

Test(number, floats_are_as_c_writes_them)
{
	EXPECT(scalar_bits,
	       { "f32:1.5", 0, 0x3fc00000 }, { "f32:-0", 0, 0x80000000 },
	       { "f32:0x1.8p0", 0, 0x3fc00000 }, { "f32:1e3", 0, 0x447a0000 },
	       { "f32:.5", 0, 0x3f000000 }, { "f32:inf", 0, 0x7f800000 },
	       { "f32:-infinity", 0, 0xff800000 }, { "f32:nan", 0, 0x7fc00000 },
	       { "f64:1", 0, 0x3ff0000000000000 }, { "f64:0.1", 0, 0x3fb999999999999a },
	       { "f16:1", 0, 0x3c00 }, { "f16:inf", 0, 0x7c00 }, { "f16:nan", 0, 0x7e00 },
	       { "bf16:1", 0, 0x3f80 }, { "bf16:-inf", 0, 0xff80 }, { "bf16:nan", 0, 0x7fc0 });
}

Test(number, floats_too_large_for_their_type_are_out_of_range)
{
	EXPECT(scalar_bits,
	       { "f16:65504", 0, 0x7bff }, { "f16:65519.99", 0, 0x7bff },
	       { "f16:65520", -ERANGE }, { "f16:-65520", -ERANGE }, { "f16:1e999", -ERANGE },
	       { "f32:3.4028234663852886e38", 0, 0x7f7fffff }, { "f32:3.5e38", -ERANGE },
	       { "bf16:3.3895313892515355e38", 0, 0x7f7f }, { "bf16:3.4e38", -ERANGE },
	       { "f64:1.7976931348623157e308", 0, 0x7fefffffffffffff },
	       { "f64:1.8e308", -ERANGE });
}

Test(number, ties_go_to_even)
{
	EXPECT(scalar_bits,
	       /* Halfway from 1 to 1 + 2^-10; halfway from 1 + 2^-10 to 1 + 2^-9. */
	       { "f16:0x1.002p0", 0, 0x3c00 }, { "f16:0x1.006p0", 0, 0x3c02 },
	       { "f16:0x1.0020000000001p0", 0, 0x3c01 },
	       { "f16:0x1.005ffffffffffp0", 0, 0x3c01 },
	       { "bf16:0x1.01p0", 0, 0x3f80 }, { "bf16:0x1.03p0", 0, 0x3f82 },
	       { "bf16:0x1.0100000000001p0", 0, 0x3f81 },
	       { "bf16:0x1.02fffffffffffp0", 0, 0x3f81 },
	       { "f32:16777217", 0, 0x4b800000 }, { "f32:16777219", 0, 0x4b800002 });
}

/* Rounding to double first would turn these numbers into ties. */
Test(number, text_just_beside_a_tie_is_rounded_once)
{
	EXPECT(scalar_bits,
	       { "f32:16777217.000000000000000000000001", 0, 0x4b800001 },
	       { "f32:16777218.999999999999999999999999", 0, 0x4b800001 },
	       { "f16:1.000488281250000000000000000001", 0, 0x3c01 },
	       { "f16:1.001464843749999999999999999999", 0, 0x3c01 },
	       { "f16:-1.000488281250000000000000000001", 0, 0xbc01 },
	       { "bf16:1.003906250000000000000000000001", 0, 0x3f81 },
	       { "bf16:1.011718749999999999999999999999", 0, 0x3f81 });
}

Test(number, the_smallest_floats_are_subnormal)
{
	EXPECT(scalar_bits,
	       { "f16:0x1p-24", 0, 1 }, { "f16:0x1p-25", 0, 0 },
	       { "f16:0x1.8p-25", 0, 1 }, { "f16:0x1.8p-24", 0, 2 },
	       { "f16:-0x1p-24", 0, 0x8001 }, { "f16:0x1.ff8p-15", 0, 0x3ff },
	       { "f16:1e-300", 0, 0 },
	       { "bf16:0x1p-133", 0, 1 }, { "bf16:0x1p-134", 0, 0 },
	       { "bf16:0x1.8p-133", 0, 2 }, { "bf16:0x1p-126", 0, 0x80 },
	       { "f32:0x1p-149", 0, 1 }, { "f32:0x1p-150", 0, 0 },
	       { "f32:0x1.8p-150", 0, 1 }, { "f64:0x1p-1074", 0, 1 },
	       { "f64:1e-400", 0, 0 });
}
/* clang-format on */

/* Every value of the type, written out in full, is read as itself. */
static void expect_all(const char *type, unsigned int infinity)
{
	for (unsigned int bits = 0; bits < 0x10000; bits++) {
		char word[64];
		uint64_t back = 0;
		double value;

		if ((bits & infinity) == infinity)
			continue;
		if (strcmp(type, "f16") == 0) {
			uint16_t pattern = (uint16_t)bits;
			_Float16 half;

			__builtin_memcpy(&half, &pattern, sizeof(half));
			value = (double)half;
		} else {
			uint32_t pattern = bits << 16;
			float single;

			__builtin_memcpy(&single, &pattern, sizeof(single));
			value = (double)single;
		}
		snprintf(word, sizeof(word), "%s:%.20e", type, value);
		cr_assert(eq(int, scalar_bits(word, &back), 0), "%s", word);
		cr_assert(eq(u64, back, bits), "%s", word);
	}
}

Test(number, every_half_is_read_as_itself)
{
	expect_all("f16", 0x7c00);
}

Test(number, every_bfloat_is_read_as_itself)
{
	expect_all("bf16", 0x7f80);
}

/* SPDX-License-Identifier: MIT */
#include "control/line.h"
#include "base/def.h"
#include "base/number.h"
#include "base/refusal.h"
#include "base/text.h"
#include "control/usage.h"
#include "model/range.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>

static const char usage[] = "NAME SIZE [kind=device|host] [device=N]";
static const char optional[] = "ADVICE [LOCATION] [offset=N]";

static struct line line;
static struct refusal refusal;

static int parse(const char *words)
{
	return line_parse(&line, words, strlen(words), usage, &refusal);
}

static void expect_refused(const char *words, int error, const char *sentence)
{
	cr_expect(eq(int, parse(words), -error), "'%s'", words);
	cr_expect(eq(int, refusal.error, error), "'%s'", words);
	cr_expect(strstr(refusal.sentence, sentence) != NULL, "'%s': %s", words,
		  refusal.sentence);
	line_deinit(&line);
}

Test(line, operands_come_first_and_keys_in_any_order)
{
	cr_assert(eq(int, parse(" x\t4M  device=1 kind=host \r"), 0));
	cr_assert(eq(str, (char *)line.operands[0], "x"));
	cr_assert(eq(str, (char *)line.operands[1], "4M"));
	cr_assert(eq(str, (char *)line_value(&line, "kind"), "host"));
	cr_assert(eq(str, (char *)line_value(&line, "device"), "1"));
	line_deinit(&line);
	cr_assert(eq(int, parse("x 4M"), 0));
	cr_assert(line_value(&line, "kind") == NULL);
	line_deinit(&line);
}

Test(line, value_may_be_empty_and_hold_an_equals_sign)
{
	cr_assert(eq(int, parse("x 4M kind= device=a=b"), 0));
	cr_assert(eq(str, (char *)line_value(&line, "kind"), ""));
	cr_assert(eq(str, (char *)line_value(&line, "device"), "a=b"));
	line_deinit(&line);
}

Test(line, missing_operands_are_named)
{
	expect_refused("", EINVAL, "NAME is missing");
	expect_refused("x", EINVAL, "SIZE is missing");
	expect_refused("x kind=host", EINVAL, "SIZE is missing before 'kind=host'");
}

Test(line, operands_that_may_be_missing_are_NULL)
{
	static const struct {
		const char *words, *location, *offset;
	} good[] = {
		{ "x", NULL, NULL },
		{ "x cpu", "cpu", NULL },
		{ "x offset=1", NULL, "1" },
		{ "x cpu offset=1", "cpu", "1" },
	};
	static const char *const bad[] = { "", "offset=1", "x offset=1 cpu",
					   "x cpu cpu" };

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		const char *words = good[i].words;

		cr_assert(eq(int,
			     line_parse(&line, words, strlen(words), optional, &refusal),
			     0),
			  "'%s'", words);
		cr_expect(eq(int, !line.operands[1], !good[i].location), "'%s'", words);
		if (line.operands[1])
			cr_expect(eq(str, (char *)line.operands[1],
				     (char *)good[i].location));
		cr_expect(eq(int, !line_value(&line, "offset"), !good[i].offset), "'%s'",
			  words);
		line_deinit(&line);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		cr_expect(
			eq(int,
			   line_parse(&line, bad[i], strlen(bad[i]), optional, &refusal),
			   -EINVAL),
			"'%s'", bad[i]);
		line_deinit(&line);
	}
}

Test(line, usage_names_operands_keys_and_arguments)
{
	static const char launch[] = "M F grid=X[,Y] block=X[,Y]|elements=N [block=N] "
				     "[file_offset=N] ARG...";
	_cleanup_text_ struct text keys = TEXT_INIT;
	struct usage_operand operand;

	cr_expect(usage_operand(launch, 1, &operand));
	cr_expect(eq(chr, *operand.name, 'F'));
	cr_expect(eq(int, operand.length, 1));
	cr_expect(not(usage_operand(launch, 2, &operand)));
	cr_expect(usage_operand(optional, 1, &operand));
	cr_expect(operand.optional);
	cr_expect(eq(int, operand.length, (int)strlen("LOCATION")));
	cr_expect(usage_has_args(launch));
	cr_expect(not(usage_has_args(usage)));
	cr_expect(usage_has_key(launch, "elements", 8));
	cr_expect(usage_has_key(launch, "file_offset", 11));
	cr_expect(not(usage_has_key(launch, "offset", 6)));
	cr_expect(not(usage_has_key(usage, "host", 4)));
	cr_expect(not(usage_has_key(usage, "", 0)));
	usage_list_keys(launch, &keys);
	cr_expect(eq(str, keys.data, "grid, block, elements, file_offset"));
}

Test(line, digit_of_a_usage_stands_for_itself)
{
	cr_expect(eq(int, line_parse(&line, "1", 1, "1", &refusal), 0));
	line_deinit(&line);
	cr_expect(eq(int, line_parse(&line, "12", 2, "1", &refusal), -EINVAL));
	cr_expect(eq(str, refusal.sentence, "'12' is not 1"));
	line_deinit(&line);
}

Test(line, arguments_may_stand_among_keys)
{
	const char words[] = "m f in:x grid=1 u32:7";

	cr_assert(
		eq(int,
		   line_parse(&line, words, strlen(words), "M F grid=X ARG...", &refusal),
		   0));
	cr_expect(eq(u32, line.n_args, 2));
	cr_expect(eq(str, (char *)line.args[1], "u32:7"));
	line_deinit(&line);
}

Test(line, unknown_key_is_named)
{
	expect_refused("x 4M colour=red", EINVAL, "colour");
	expect_refused("x 4M =red", EINVAL, "=red");
	expect_refused("x 4M Kind=host", EINVAL, "Kind");
	expect_refused("x 4M kin=host", EINVAL, "kin");
}

Test(line, key_given_twice_is_refused)
{
	expect_refused("x 4M kind=host kind=host", EINVAL, "twice");
}

Test(line, word_too_many_is_named)
{
	expect_refused("x 4M 5M", EINVAL, "5M");
}

Test(line, too_long_a_line_is_refused)
{
	char bytes[LINE_MAX_LENGTH + 1];

	memset(bytes, ' ', sizeof(bytes));
	memcpy(bytes, "x 4M", 4);
	cr_assert(eq(int, line_parse(&line, bytes, LINE_MAX_LENGTH, usage, &refusal), 0));
	line_deinit(&line);
	cr_assert(eq(int, line_parse(&line, bytes, LINE_MAX_LENGTH + 1, usage, &refusal),
		     -E2BIG));
	line_deinit(&line);
}

Test(line, nul_byte_is_refused)
{
	cr_assert(eq(int, line_parse(&line, "x\0 4M", 5, usage, &refusal), -EINVAL));
	cr_assert(ne(ptr, strstr(refusal.sentence, "NUL"), NULL));
	line_deinit(&line);
}

Test(line, long_words_do_not_burst_the_sentence)
{
	char bytes[LINE_MAX_LENGTH];

	memset(bytes, 'k', sizeof(bytes));
	memcpy(bytes, "x 4M ", 5);
	bytes[2000] = '=';
	cr_assert(eq(int, line_parse(&line, bytes, sizeof(bytes), usage, &refusal),
		     -EINVAL));
	cr_assert(lt(sz, strlen(refusal.sentence), sizeof(refusal.sentence)));
	line_deinit(&line);
}

Test(line, range_has_an_offset_a_length_or_both)
{
	struct range range = { 0 };

	cr_assert(eq(int, line_range("4K", "16xf32", &range, &refusal), 0));
	cr_assert(eq(u64, range.offset, 4096));
	cr_assert(eq(u64, range.length, 64));
	cr_assert(range.has_length);
	range = (struct range){ 0 };
	cr_assert(eq(int, line_range(NULL, NULL, &range, &refusal), 0));
	cr_assert(not(range.has_length));
	cr_assert(eq(int, line_range(NULL, "0", &range, &refusal), -EINVAL));
	cr_assert(eq(int, line_range("x", NULL, &range, &refusal), -EINVAL));
	cr_assert(
		eq(int, line_range("99999999999T", NULL, &range, &refusal), -EOVERFLOW));
}

Test(line, place_is_a_name_with_an_offset)
{
	struct range range;
	struct full_name name;

	cr_assert(eq(int, line_place("x", &name, &range, &refusal), 0));
	cr_assert(eq(str, name.text, "x"));
	cr_assert(eq(u64, range.offset, 0));
	cr_assert(eq(int, line_place("x.y+1K", &name, &range, &refusal), 0));
	cr_assert(eq(str, name.text, "x.y"));
	cr_assert(eq(u64, range.offset, 1024));
	cr_assert(eq(int, line_place("a/b/x+8", &name, &range, &refusal), 0));
	cr_assert(eq(str, name.text, "a/b/x"));
	cr_assert(eq(int, line_place("x+", &name, &range, &refusal), -EINVAL));
	cr_assert(eq(int, line_place("+1", &name, &range, &refusal), -EINVAL));
	cr_assert(eq(int, line_place("x+1+1", &name, &range, &refusal), -EINVAL));
	cr_assert(eq(int,
		     line_place("x1234567890123456789012345678901234567890"
				"1234567890123456789012345678901234567890+1",
				&name, &range, &refusal),
		     -ENAMETOOLONG));
}

Test(line, sentences_quote_the_word_and_name_what_is_allowed)
{
	static const struct {
		const char *word, *sentence;
	} sizes[] = {
		{ "1.5G", "length=1.5G is not a size: use 1536M, 1610612736 or 1024xf32" },
		{ "0.5GB", "length=0.5GB is not a size: use 500000000 or 1024xf32" },
		{ "big", "length=big is not a size: use 4096, 4K, 16MiB, 100MB or "
			 "1024xf32" },
		{ "16777216T",
		  "length=16777216T is too large: a size has at most 64 bits" },
		{ "0", "length=0: 1 byte is the least" },
	}, names[] = {
		{ "my-weights/layer1", "'my-weights/layer1' can't be a name: '/' is not "
				       "allowed" },
		{ ".x", "'.x' can't be a name: it begins with '.'" },
		{ "\xc3\xa4", "'\xc3\xa4' can't be a name: only A-Z, a-z, 0-9, '_', '.' "
			      "and '-' are allowed" },
		{ "", "the name of the stream is missing" },
	}, scalars[] = {
		{ "u8:256", "'u8:256' is outside the range of u8" },
		{ "i32:x", "'i32:x' is not i32 and a number, such as i32:1" },
		{ "float:1", "'float:1' is not TYPE:VALUE, such as f32:1.5; the types are "
			     SCALAR_TYPES },
	};
	struct range range = { 0 };
	struct scalar scalar;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		cr_expect(lt(int, line_range(NULL, sizes[i].word, &range, &refusal), 0));
		cr_expect(eq(str, refusal.sentence, (char *)sizes[i].sentence));
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		cr_expect(eq(int, line_name(names[i].word, "stream", &refusal), -EINVAL));
		cr_expect(eq(str, refusal.sentence, (char *)names[i].sentence));
	}
	for (size_t i = 0; i < ARRAY_SIZE(scalars); i++) {
		cr_expect(eq(int, line_scalar(scalars[i].word, &scalar, &refusal),
			     -EINVAL));
		cr_expect(eq(str, refusal.sentence, (char *)scalars[i].sentence));
	}
}

Test(line, wait_is_zero_or_one)
{
	bool wait = false;

	cr_assert(eq(int, line_wait(NULL, &wait, &refusal), 0));
	cr_assert(wait);
	cr_assert(eq(int, line_wait("0", &wait, &refusal), 0));
	cr_assert(not(wait));
	cr_assert(eq(int, line_wait("1", &wait, &refusal), 0));
	cr_assert(wait);
	cr_assert(eq(int, line_wait("", &wait, &refusal), -EINVAL));
	cr_assert(eq(int, line_wait("no", &wait, &refusal), -EINVAL));
}

static void expect_path(const char *word, const char *path)
{
	char found[LINE_MAX_LENGTH + 1];

	cr_expect(eq(int, line_path(word, found, &refusal), 0), "%s", word);
	cr_expect(eq(str, found, (char *)path));
}

static void expect_no_path(const char *word, const char *sentence)
{
	char found[LINE_MAX_LENGTH + 1];

	cr_expect(eq(int, line_path(word, found, &refusal), -EINVAL));
	cr_expect(strstr(refusal.sentence, sentence) != NULL, "%s", refusal.sentence);
}

Test(line, paths_are_absolute_and_may_have_bytes_in_octal)
{
	expect_path("/", "/");
	expect_path("/a/b.c", "/a/b.c");
	expect_path("/a\\040b\\134", "/a b\\");
	expect_path("/\\303\\274\\377", "/\303\274\377");
	expect_path("/a\\04", "/a\\04");
	expect_path("/a\\n\\089", "/a\\n\\089");
	expect_no_path(NULL, "path=FILE is missing");
	expect_no_path("", "not absolute");
	expect_no_path("a/b", "path=a/b is not absolute");
	expect_no_path("\\057a", "not absolute");
	expect_no_path("/a\\000", "no byte \\000");
	expect_no_path("/a\\400", "no byte \\400");
}

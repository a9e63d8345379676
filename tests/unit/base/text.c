/* SPDX-License-Identifier: MIT */
#include "base/text.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

Test(text, empty_text_is_an_empty_string)
{
	struct text text = TEXT_INIT;

	cr_assert(eq(str, (char *)text_string(&text), ""));
	cr_assert(not(text_failed(&text)));
	text_deinit(&text);
}

Test(text, grows_beyond_any_capacity)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	for (int i = 0; i < 10000; i++)
		text_printf(&text, "%04d ", i);
	cr_assert(eq(sz, text.length, 50000));
	cr_assert(eq(sz, strlen(text_string(&text)), 50000));
	cr_assert(eq(int, memcmp(text.data + 49995, "9999 ", 6), 0));
}

/* Lengths around the first capacity, where the NUL just fits or just doesn't. */
Test(text, keeps_room_for_the_nul)
{
	char bytes[600];

	memset(bytes, 'x', sizeof(bytes));
	for (size_t length = 250; length < 520; length++) {
		_cleanup_text_ struct text added = TEXT_INIT, printed = TEXT_INIT;

		text_add(&added, bytes, length);
		text_printf(&printed, "%.*s", (int)length, bytes);
		cr_assert(eq(sz, strlen(text_string(&added)), length));
		cr_assert(eq(sz, strlen(text_string(&printed)), length));
		cr_assert(lt(sz, added.length, added.capacity));
		cr_assert(lt(sz, printed.length, printed.capacity));
	}
}

Test(text, bytes_may_hold_nul)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	text_add(&text, "a\0b", 3);
	text_add(&text, NULL, 0);
	cr_assert(eq(sz, text.length, 3));
	cr_assert(eq(int, memcmp(text.data, "a\0b", 4), 0));
}

Test(text, cleared_text_starts_again)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	text_printf(&text, "before");
	text.failed = true;
	text_printf(&text, "not added");
	cr_assert(eq(sz, text.length, 6));
	text_clear(&text);
	cr_assert(not(text_failed(&text)));
	cr_assert(eq(str, (char *)text_string(&text), ""));
	text_printf(&text, "after");
	cr_assert(eq(str, (char *)text_string(&text), "after"));
}

/* Lengths that can't be. The time limit: doubling a capacity ended never. */
Test(text, too_long_fails_in_place, .timeout = 10)
{
	const size_t lengths[] = { SIZE_MAX, SIZE_MAX - 3, SIZE_MAX / 2 + 1,
				   SIZE_MAX / 2 };

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		_cleanup_text_ struct text text = TEXT_INIT;

		text_add(&text, "", lengths[i]);
		cr_assert(text_failed(&text));
		cr_assert(eq(str, (char *)text_string(&text), ""));
		text_clear(&text);
		text_add(&text, "before", 6);
		text_add(&text, "", lengths[i]);
		cr_assert(text_failed(&text));
		cr_assert(eq(str, (char *)text_string(&text), "before"));
	}
}

Test(text, plain_is_utf_8_that_a_terminal_only_shows)
{
	static const char *const plain[] = {
		"",
		"a b~",
		"\xc2\xa0",
		"\xc3\xa9",
		"\xdf\xbf",
		"\xe0\xa0\x80",
		"\xe2\x80\xa7",
		"\xe2\x80\xaf",
		"\xe2\x81\x9f",
		"\xe2\x81\xb0",
		"\xed\x9f\xbf",
		"\xee\x80\x80",
		"\xf0\x90\x80\x80",
		"\xf4\x8f\xbf\xbf",
	};
	static const char *const others[] = {
		"\n",
		"\x1b",
		"\x7f",
		"\xc2\x80",
		"\xc2\x9f",
		/* cut off, or with nothing in front */
		"\xc3",
		"\x80",
		"\xe2\x80",
		"\xf0\x90\x80",
		"\xc3"
		"a",
		/* longer than needed */
		"\xc0\x9b",
		"\xc1\xbf",
		"\xe0\x80\x9b",
		"\xe0\x9f\xbf",
		"\xf0\x80\x80\x9b",
		"\xf0\x8f\xbf\xbf",
		/* surrogates, and beyond U+10FFFF */
		"\xed\xa0\x80",
		"\xed\xbf\xbf",
		"\xf4\x90\x80\x80",
		"\xf5\x80\x80\x80",
		"\xf7\xbf\xbf\xbf",
		"\xff",
		/* ends of lines and of paragraphs, and other directions */
		"\xe2\x80\xa8",
		"\xe2\x80\xa9",
		"\xe2\x80\xaa",
		"\xe2\x80\xae",
		"\xe2\x81\xa6",
		"\xe2\x81\xa9",
		"\xd8\x9c",
		"\xe2\x80\x8e",
		/* without a width */
		"\xe2\x80\x8b",
		"\xe2\x81\xa0",
		"\xef\xbb\xbf",
		"\xf3\xa0\x81\x81",
		"\xc2\xad",
		"\xcd\x8f",
		"\xe1\x85\x9f",
		"\xe1\x9e\xb4",
		"\xe1\xa0\x8e",
		"\xe3\x85\xa4",
		"\xef\xbe\xa0",
		"\xf0\x9b\xb2\xa0",
		"\xf0\x9d\x85\xb3",
	};

	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		cr_assert(string_is_plain(plain[i]), "%zu", i);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		cr_assert(not(string_is_plain(others[i])), "%zu", i);
}

Test(text, a_word_has_no_blank_of_any_width)
{
	static const char *const words[] = {
		"weights", "gewichte-\xc3\xbc",
		"\xe2\x80\x8d", /* joiners have a use in words */
	};
	static const char *const others[] = {
		"",
		"two words",
		"a\tb",
		"a\xc2\xa0"
		"b",
		"\xe1\x9a\x80",
		"\xe2\x80\x80",
		"\xe2\x80\x87",
		"\xe2\x80\x8a",
		"\xe2\x80\xaf",
		"\xe2\x81\x9f",
		"\xe2\xa0\x80",
		"\xe3\x80\x80",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		cr_assert(string_is_word(words[i]), "%zu", i);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		cr_assert(not(string_is_word(others[i])), "%zu", i);
}

Test(text, what_is_not_printable_is_shown_in_hex)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	text_add_printable(&text, "a b\t\n\x1b\x7f\xc3\xa9~");
	cr_assert(eq(str, (char *)text_string(&text),
		     "a b\\x09\\x0a\\x1b\\x7f\\xc3\\xa9~"));
}

Test(text, time_is_utc_in_rfc_3339)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	text_time(&text, 0);
	text_add(&text, " ", 1);
	text_time(&text, 1795168800);
	cr_assert(eq(str, (char *)text_string(&text),
		     "1970-01-01T00:00:00Z 2026-11-20T10:00:00Z"));
}

Test(text, hash_is_fnv_1a)
{
	cr_assert(eq(u64, text_hash("", 0), 0xcbf29ce484222325));
	cr_assert(eq(u64, text_hash("foobar", 6), 0x85944171f73967e8));
}

/* An escape may be cut off where the text was. */
Test(text, octal_escapes_are_undone_if_they_are_whole)
{
	static const struct {
		const char *escaped, *text;
	} cases[] = {
		{ "a\\040b\\134", "a b\\" }, { "a\\04", "a\\04" },
		{ "a\\0", "a\\0" },	     { "a\\", "a\\" },
		{ "\\09x", "\\09x" },	     { "", "" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = strdup(cases[i].escaped); /* a sanitizer sees its end */

		string_unescape(text);
		cr_expect(eq(str, text, (char *)cases[i].text));
		free(text);
	}
}

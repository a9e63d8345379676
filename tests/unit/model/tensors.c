/* SPDX-License-Identifier: MIT */
/* The check of a safetensors header: good ones, and a sentence for each way to lie. */
#include "model/tensors.h"
#include "base/def.h"
#include "base/refusal.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 1024 /* of the allocation */

static struct refusal refusal;

static int check(const char *text)
{
	refusal = (struct refusal){ 0 };
	return tensors_check(text, strlen(text), SIZE, &refusal);
}

static void good(const char *text)
{
	cr_assert(eq(int, check(text), 0), "%s: %s", text, refusal.sentence);
}

static bool says(const char *words)
{
	return strstr(refusal.sentence, words);
}

/* The error, and a part of its sentence. */
static void bad(const char *text, const char *why)
{
	cr_assert(eq(int, check(text), -EINVAL), "%s: %s", text, refusal.sentence);
	cr_assert(eq(int, refusal.error, EINVAL));
	cr_assert(says(why), "%s: %s", text, refusal.sentence);
}

/* A tensor `a` with what is given. */
#define ONES_16	      "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"
#define ONES_64	      ONES_16 "," ONES_16 "," ONES_16 "," ONES_16
#define A(members)    "{\"a\":{" members "}}"
#define OFFSETS(b, e) "\"data_offsets\":[" #b "," #e "]"

Test(tensors, every_type_has_its_size)
{
	static const char *const eights[] = { "BOOL",	 "U8",	    "I8",
					      "F8_E4M3", "F8_E5M2", "F8_E8M0" };
	static const char *const sixteens[] = { "U16", "I16", "F16", "BF16" };
	static const char *const sixtyfours[] = { "U64", "I64", "F64", "C64" };
	char text[256];

	for (size_t i = 0; i < ARRAY_SIZE(eights); i++) {
		snprintf(text, sizeof(text),
			 A("\"dtype\":\"%s\",\"shape\":[3]," OFFSETS(5, 8)), eights[i]);
		good(text);
	}
	for (size_t i = 0; i < ARRAY_SIZE(sixteens); i++) {
		snprintf(text, sizeof(text),
			 A("\"dtype\":\"%s\",\"shape\":[3,1]," OFFSETS(2, 8)),
			 sixteens[i]);
		good(text);
	}
	for (size_t i = 0; i < ARRAY_SIZE(sixtyfours); i++) {
		snprintf(text, sizeof(text),
			 A("\"dtype\":\"%s\",\"shape\":[4,32]," OFFSETS(0, 1024)),
			 sixtyfours[i]);
		good(text);
	}
	good(A("\"dtype\":\"F4\",\"shape\":[6]," OFFSETS(0, 3)));
	bad(A("\"dtype\":\"F4\",\"shape\":[5]," OFFSETS(0, 3)), "5 elements of 4 bits");
}

Test(tensors, shapes_may_be_empty)
{
	good(A("\"dtype\":\"F32\",\"shape\":[]," OFFSETS(0, 4)));
	good(A("\"dtype\":\"F32\",\"shape\":[0,7]," OFFSETS(12, 12)));
	good(A("\"dtype\":\"F32\",\"shape\":[9007199254740993,0]," OFFSETS(1024, 1024)));
	good("{}");
	good(" {\"__metadata__\":{\"format\":\"pt\"}} \n ");
}

Test(tensors, strides_kind_and_alias)
{
	good(A("\"dtype\":\"F32\",\"shape\":[2,2],\"strides\":[1,2]," OFFSETS(0, 16)));
	good(A("\"dtype\":\"F32\",\"shape\":[2,2],\"strides\":[4,1]," OFFSETS(0, 24)));
	good(A("\"dtype\":\"F32\",\"shape\":[9,2],\"strides\":[0,1]," OFFSETS(0, 8)));
	good(A("\"dtype\":\"F32\",\"shape\":[0,2],\"strides\":[9,1]," OFFSETS(0, 0)));
	bad(A("\"dtype\":\"F32\",\"shape\":[2,2],\"strides\":[2]," OFFSETS(0, 16)),
	    "strides has a whole number for each of shape");
	bad(A("\"dtype\":\"F32\",\"shape\":[2,2],\"strides\":[2,-1]," OFFSETS(0, 16)),
	    "strides are whole numbers");
	bad(A("\"dtype\":\"F32\",\"shape\":[2,2],\"strides\":[4,1]," OFFSETS(0, 16)),
	    "6 elements of 32 bits are not the 16 bytes");
	bad(A("\"dtype\":\"F32\",\"shape\":[9],\"strides\":[9223372036854775806]"
	      "," OFFSETS(0, 16)),
	    "strides lead out of any memory");
	good(A("\"dtype\":\"U8\",\"shape\":[1],\"kind\":\"buffer\"," OFFSETS(0, 1)));
	bad(A("\"dtype\":\"U8\",\"shape\":[1],\"kind\":\"weight\"," OFFSETS(0, 1)),
	    "kind is parameter or buffer, not \"weight\"");
	bad(A("\"dtype\":\"U8\",\"shape\":[1],\"kind\":1," OFFSETS(0, 1)), "kind is");
	bad(A("\"dtype\":\"U8\",\"shape\":[1],\"alias\":1," OFFSETS(0, 1)),
	    "alias is the name");
}

#define ALIAS(name, of, b, e)                                          \
	"\"" name "\":{\"dtype\":\"U8\",\"shape\":[1],\"alias\":\"" of \
	"\"," OFFSETS(b, e) "}"
#define PLAIN(name, b, e) \
	"\"" name "\":{\"dtype\":\"U8\",\"shape\":[1]," OFFSETS(b, e) "}"

Test(tensors, aliases)
{
	good("{" ALIAS("b", "a", 0, 1) "," PLAIN("a", 0, 1) "}");
	bad("{" ALIAS("b", "c", 0, 1) "," PLAIN("a", 0, 1) "}", "alias 'c' is not there");
	bad("{" ALIAS("b", "b", 0, 1) "}", "is itself");
	bad("{" ALIAS("b", "a", 0, 1) "," ALIAS("a", "b", 0, 1) "}", "is an alias, too");
	bad("{" ALIAS("b", "a", 1, 2) "," PLAIN("a", 0, 1) "}", "lies elsewhere");
}

Test(tensors, lies_about_places)
{
	bad(A("\"dtype\":\"U8\",\"shape\":[1]," OFFSETS(1024, 1025)),
	    "data_offsets end at 1025, the allocation at 1024");
	bad(A("\"dtype\":\"U8\",\"shape\":[1]," OFFSETS(2, 1)), "BEGIN <= END");
	bad(A("\"dtype\":\"U8\",\"shape\":[1]," OFFSETS(-1, 0)), "data_offsets is");
	bad(A("\"dtype\":\"U8\",\"shape\":[1]," OFFSETS(0, 1.0)), "data_offsets is");
	bad(A("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]"),
	    "data_offsets is");
	bad(A("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":{}"), "object inside");
	bad(A("\"dtype\":\"U8\",\"shape\":[1]," OFFSETS(0, 18446744073709551617)),
	    "data_offsets is");
	bad(A("\"dtype\":\"U8\",\"shape\":[1]," OFFSETS(0, 9223372036854775807)),
	    "data_offsets is");
	bad(A("\"dtype\":\"F32\",\"shape\":[3]," OFFSETS(0, 13)),
	    "3 elements of 32 bits are not the 13 bytes");
}

Test(tensors, lies_about_elements)
{
	bad(A("\"dtype\":\"F99\",\"shape\":[1]," OFFSETS(0, 1)), "not \"F99\"");
	bad(A("\"dtype\":\"f32\",\"shape\":[1]," OFFSETS(0, 4)),
	    "dtype is one of BOOL U8");
	bad(A("\"dtype\":8,\"shape\":[1]," OFFSETS(0, 1)), "dtype is one of");
	bad(A("\"dtype\":null,\"shape\":[1]," OFFSETS(0, 1)), "dtype is null");
	bad(A("\"dtype\":\"U8\",\"shape\":1," OFFSETS(0, 1)), "shape is a list");
	bad(A("\"dtype\":\"U8\",\"shape\":[-1]," OFFSETS(0, 1)), "whole numbers from 0");
	bad(A("\"dtype\":\"U8\",\"shape\":[1e0]," OFFSETS(0, 1)), "whole numbers from 0");
	bad(A("\"dtype\":\"U8\",\"shape\":[\"1\"]," OFFSETS(0, 1)),
	    "whole numbers from 0");
	bad(A("\"dtype\":\"U8\",\"shape\":[null]," OFFSETS(0, 1)),
	    "whole numbers from 0");
	bad(A("\"dtype\":\"U8\",\"shape\":[4294967296,4294967296]," OFFSETS(0, 0)),
	    "more elements than any memory");
	bad(A("\"dtype\":\"U8\",\"shape\":[" ONES_64 ",1]," OFFSETS(0, 1)),
	    "more than 64 numbers");
	bad(A("\"dtype\":\"U8\",\"shape\":[18446744073709551616,0]," OFFSETS(0, 0)),
	    "whole numbers from 0");
	bad(A("\"dtype\":\"F64\",\"shape\":[2305843009213693952]," OFFSETS(0, 0)),
	    "are not the 0 bytes");
	bad(A("\"dtype\":\"U8\",\"shape\":[1]"), "tensor 'a' has no data_offsets");
	bad(A("\"dtype\":\"U8\"," OFFSETS(0, 1)), "tensor 'a' has no shape");
	bad(A("\"dtype\":\"U8\",\"shape\":[1],\"offset\":0," OFFSETS(0, 1)),
	    "only dtype, shape");
}

Test(tensors, each_key_is_there_once)
{
	bad("{" PLAIN("a", 0, 1) "," PLAIN("b", 1, 2) "," PLAIN("a", 0, 1) "}",
	    "tensor 'a' is there twice");
	bad("{" PLAIN("a", 0, 1) "," PLAIN("\\u0061", 0, 1) "}",
	    "tensor 'a' is there twice");
	bad(A("\"dtype\":\"U8\",\"shape\":[2],\"shape\":[1]," OFFSETS(0, 1)),
	    "a key is there twice");
	bad("{\"__metadata__\":{\"a\":\"b\",\"a\":\"b\"}}", "a key is there twice");
	bad("{\"__metadata__\":{},\"__metadata__\":{}}", "it is there twice");
}

Test(tensors, metadata_is_strings)
{
	good("{\"__metadata__\":{\"a:b\":\"c:\\\"d\",\"\":\"\"}}");
	bad("{\"__metadata__\":{\"a\":1}}", "its values are strings");
	bad("{\"__metadata__\":{\"a\":[]}}", "its values are strings");
	bad("{\"__metadata__\":{\"a\":{}}}", "object inside");
	bad("{\"__metadata__\":\"a\"}", "not an object");
}

Test(tensors, what_is_not_json)
{
	bad("hello", "begins with '{'");
	bad("[]", "begins with '{'");
	bad("{\"a\":1}", "\"a\": its value is not an object");
	bad("{\"a\":}", "not an object");
	bad("{\"a\":]}", "a ']' without its '['");
	bad("{\"a\" {}}", "':' was expected");
	bad("{a:{}}", "name of a tensor in \"\"");
	bad("{" PLAIN("a", 0, 1) ",}", "name of a tensor");
	bad("{" PLAIN("a", 0, 1) " " PLAIN("b", 0, 1) "}", "a ',' or a '}'");
	bad("{} {}", "more behind the last '}'");
	bad("{'a':{}}", "name of a tensor");
	bad(A("'dtype':\"U8\",\"shape\":[1]," OFFSETS(0, 1)), "not a quote in JSON");
	bad(A("\"dtype\":\"U8\",\"shape\":[01]," OFFSETS(0, 1)), "number");
	bad(A("\"dtype\":\"U8\",\"shape\":[1,]," OFFSETS(0, 1)), "unexpected");
	bad(A("\"dtype\":\"U8\",\"shape\":[1]," OFFSETS(0, NaN)), "data_offsets");
	bad("{\"a\n\":{}}", "control character");
	bad("{\"a\\u0000b\":{}}", "\\u0000 is not allowed");
	bad("{\"\xff\":{}}", "UTF-8");
	bad("{\"a\":{\"x\":[[[[[[[[[[", "nested too deeply");
}

Test(tensors, an_early_end_is_told_from_other_errors)
{
	static const char whole[] =
		"{" PLAIN("a", 0, 1) ",\"__metadata__\":{\"a\":\"b\"}}";

	good(whole);
	for (size_t n = 0; n < strlen(whole); n++) {
		cr_assert(eq(int, tensors_check(whole, n, SIZE, &refusal), -ENODATA),
			  "%zu", n);
		cr_assert(eq(int, refusal.error, EINVAL));
		cr_assert(says("ends too early"));
	}
}

/* One more than are allowed. */
static int check_many(void)
{
	size_t n = TENSORS_MAX + 1;
	char *text = malloc(n * 80 + 16);
	size_t length = 1;
	int r;

	cr_assert(ne(ptr, text, NULL));
	text[0] = '{';
	for (size_t i = 0; i < n; i++)
		length += (size_t)sprintf(text + length,
					  "%s\"%zu\":{\"dtype\":\"U8\",\"shape\":[0],"
					  "\"data_offsets\":[0,0]}",
					  i ? "," : "", i);
	length += (size_t)sprintf(text + length, "}");
	r = tensors_check(text, length, SIZE, &refusal);
	free(text);
	return r;
}

Test(tensors, there_is_a_most_of_each, .timeout = 60)
{
	char *text = calloc(1, TENSORS_TEXT_MAX + 2);

	cr_assert(eq(int, check_many(), -EINVAL));
	cr_assert(says("more than 262144 tensors"));

	memset(text, ' ', TENSORS_TEXT_MAX + 1);
	memcpy(text, "{}", 2);
	cr_assert(eq(int, tensors_check(text, TENSORS_TEXT_MAX, SIZE, &refusal), 0));
	cr_assert(eq(int, tensors_check(text, TENSORS_TEXT_MAX + 1, SIZE, &refusal),
		     -EINVAL));
	cr_assert(says("at most 64 MiB"));

	/* As many values as fit: not one of them becomes a tree. */
	memcpy(text, "{\"a\":{\"b\":[", 11);
	for (size_t i = 11; i + 3 < TENSORS_TEXT_MAX; i += 3)
		memcpy(text + i, "[],", 3);
	memcpy(text + TENSORS_TEXT_MAX - 5, "[]]}}", 5);
	cr_assert(
		eq(int, tensors_check(text, TENSORS_TEXT_MAX, SIZE, &refusal), -EINVAL));
	cr_assert(says("more than the 64 KiB"), "%s", refusal.sentence);
	free(text);
}

/* SPDX-License-Identifier: MIT */
#include "base/number.h"

#include <ctype.h>
#include <errno.h>
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	size_t size;
	bool is_float;
	bool is_signed;
} scalar_types[N_SCALAR_TYPES] = {
	[SCALAR_I8] = { "i8", 1, false, true },
	[SCALAR_U8] = { "u8", 1, false, false },
	[SCALAR_I16] = { "i16", 2, false, true },
	[SCALAR_U16] = { "u16", 2, false, false },
	[SCALAR_I32] = { "i32", 4, false, true },
	[SCALAR_U32] = { "u32", 4, false, false },
	[SCALAR_I64] = { "i64", 8, false, true },
	[SCALAR_U64] = { "u64", 8, false, false },
	[SCALAR_F16] = { "f16", 2, true, true },
	[SCALAR_BF16] = { "bf16", 2, true, true },
	[SCALAR_F32] = { "f32", 4, true, true },
	[SCALAR_F64] = { "f64", 8, true, true },
};

size_t scalar_size(enum scalar_type type)
{
	return scalar_types[type].size;
}

static int scalar_type_find(const char *name, size_t length)
{
	for (int i = 0; i < N_SCALAR_TYPES; i++) {
		if (strlen(scalar_types[i].name) == length &&
		    memcmp(scalar_types[i].name, name, length) == 0)
			return i;
	}
	return -EINVAL;
}

/*
 * Parses digits, decimal or hex, without sign and blanks. ret_end points behind the last
 * digit.
 */
static int digits_parse(const char *word, uint64_t *ret_number, const char **ret_end)
{
	bool hex = word[0] == '0' && (word[1] == 'x' || word[1] == 'X') &&
		   isxdigit((unsigned char)word[2]);
	char *end;
	unsigned long long number;

	if (!isdigit((unsigned char)word[0]))
		return -EINVAL;
	errno = 0;
	number = strtoull(word, &end, hex ? 16 : 10);
	if (errno == ERANGE)
		return -EOVERFLOW;
	*ret_number = number;
	*ret_end = end;
	return 0;
}

int number_parse(const char *word, uint64_t *ret_number)
{
	const char *end;
	uint64_t number;
	int r;

	r = digits_parse(word, &number, &end);
	if (r < 0)
		return r;
	if (*end)
		return -EINVAL;
	*ret_number = number;
	return 0;
}

bool word_is_number(const char *word)
{
	char *end;

	(void)strtod(word, &end);
	return strpbrk(word, "0123456789") && end != word && !*end;
}

/* ---- sizes ---- */

/* `K`, `KiB`: 1024; `KB`: 1000; M G T likewise. Without a unit: 1. */
static uint64_t unit_parse(const char *word, const char **ret_end)
{
	static const char letters[] = "kmgt";
	const char *found = *word ? strchr(letters, tolower((unsigned char)*word)) : NULL;
	uint64_t base = 1024, unit = 1;

	*ret_end = word;
	if (!found)
		return 1;
	*ret_end = word + 1;
	if (strncasecmp(word + 1, "iB", 2) == 0) {
		*ret_end = word + 3;
	} else if (toupper((unsigned char)word[1]) == 'B') {
		*ret_end = word + 2;
		base = 1000;
	}
	for (const char *letter = letters; letter <= found; letter++)
		unit *= base;
	return unit;
}

int size_parse(const char *word, uint64_t *ret_size)
{
	uint64_t number, size, unit;
	const char *end;
	int r, type;

	/* 0xf32 is ambiguous: a hex number, or zero floats. Refused. */
	if (word[0] == '0' && word[1] == 'x' &&
	    scalar_type_find(word + 2, strlen(word + 2)) >= 0)
		return -EINVAL;
	r = digits_parse(word, &number, &end);
	if (r < 0)
		return r;
	unit = unit_parse(end, &end);
	if (*end == 'x') {
		type = scalar_type_find(end + 1, strlen(end + 1));
		if (type < 0)
			return -EINVAL;
		unit *= scalar_size((enum scalar_type)type);
	} else if (*end) {
		return -EINVAL;
	}
	if (__builtin_mul_overflow(number, unit, &size))
		return -EOVERFLOW;
	*ret_size = size;
	return 0;
}

int size_parse_fraction(const char *word, uint64_t *ret_size)
{
	size_t length = strspn(word, "0123456789.");
	const char *end;
	char *number_end;
	double size;

	size = strtod(word, &number_end);
	if (number_end == word || number_end != word + length)
		return -EINVAL;
	size *= (double)unit_parse(number_end, &end);
	if (end == number_end || *end || !(size >= 1) || size >= 0x1p53)
		return -EINVAL;
	*ret_size = (uint64_t)size;
	return 0;
}

const char *size_write(char text[64], uint64_t size)
{
	static const char letters[] = "KMGT";
	int i = -1;

	for (; i < 3 && size && size % 1024 == 0; i++)
		size /= 1024;
	snprintf(text, 64, "%llu%.*s", (unsigned long long)size, i >= 0,
		 i >= 0 ? &letters[i] : "");
	return text;
}

const char *size_print(char text[64], uint64_t size)
{
	static const char letters[] = "KMGTPE";
	int i = -1;
	uint64_t unit = 1;

	while (i < 5 && size / unit >= 1024) {
		unit *= 1024;
		i++;
	}
	if (i < 0)
		snprintf(text, 64, "%llu byte%s", (unsigned long long)size,
			 size == 1 ? "" : "s");
	else if (size % unit == 0)
		snprintf(text, 64, "%llu %ciB", (unsigned long long)(size / unit),
			 letters[i]);
	else if (size % unit * 2 % unit == 0)
		snprintf(text, 64, "%.1f %ciB", (double)size / (double)unit, letters[i]);
	else if (size < 10000000)
		snprintf(text, 64, "%llu bytes", (unsigned long long)size);
	else
		snprintf(text, 64, "%.1f %ciB (%llu bytes)", (double)size / (double)unit,
			 letters[i], (unsigned long long)size);
	return text;
}

/* ---- scalars ---- */

static int integer_bits(const char *word, size_t size, bool is_signed, uint64_t *ret_bits)
{
	uint64_t mask = size == 8 ? UINT64_MAX : ((uint64_t)1 << (8 * size)) - 1;
	bool negative = word[0] == '-';
	uint64_t number, limit;
	int r;

	r = number_parse(word + (negative || word[0] == '+'), &number);
	if (r == -EOVERFLOW)
		return -ERANGE;
	if (r < 0)
		return r;
	limit = is_signed ? mask >> 1 : mask;
	if (negative)
		limit = is_signed ? (mask >> 1) + 1 : 0;
	if (number > limit)
		return -ERANGE;
	*ret_bits = (negative ? -number : number) & mask;
	return 0;
}

/* bfloat16 is the upper half of a float, rounded to nearest even. */
static uint16_t bf16_bits(double value)
{
	float single = (float)value;
	uint32_t bits;

	memcpy(&bits, &single, sizeof(bits));
	if (isnan(value))
		return (uint16_t)((bits >> 16) | 0x40);
	/* Double rounding errs only when the first step has made the float a tie. */
	if ((double)single != value && (bits & 0xffff) == 0x8000) {
		if (fabs((double)single) < fabs(value))
			bits++;
		else
			bits--;
	}
	bits += 0x7fff + ((bits >> 16) & 1);
	return (uint16_t)(bits >> 16);
}

/*
 * The double to round once more, to fewer bits. When the text is between two doubles, the
 * odd one is returned. So rounding does not create a tie.
 */
static double double_to_odd(const char *word)
{
	int mode = fegetround();
	double below, above;
	uint64_t bits;

	fesetround(FE_DOWNWARD);
	below = strtod(word, NULL);
	fesetround(FE_UPWARD);
	above = strtod(word, NULL);
	fesetround(mode);
	memcpy(&bits, &below, sizeof(bits));
	return bits & 1 ? below : above;
}

static int float_bits(const char *word, enum scalar_type type, uint64_t *ret_bits)
{
	double value, back;
	_Float16 half;
	float single;
	uint16_t upper;
	uint32_t widened;
	uint64_t bits = 0;
	char *end;

	if (isspace((unsigned char)word[0]) || !word[0])
		return -EINVAL;
	value = strtod(word, &end);
	if (*end || end == word)
		return -EINVAL;

	switch (type) {
	case SCALAR_F16:
		half = (_Float16)double_to_odd(word);
		memcpy(&bits, &half, sizeof(half));
		back = (double)half;
		break;
	case SCALAR_BF16:
		upper = bf16_bits(double_to_odd(word));
		widened = (uint32_t)upper << 16;
		memcpy(&single, &widened, sizeof(single));
		bits = upper;
		back = (double)single;
		break;
	case SCALAR_F32:
		/* Directly from the text: a double on the way would round twice. */
		single = strtof(word, NULL);
		memcpy(&bits, &single, sizeof(single));
		back = (double)single;
		break;
	default:
		memcpy(&bits, &value, sizeof(value));
		back = value;
		break;
	}
	/* A finite number became infinite; `inf` itself has no digits. */
	if (isinf(back) && strpbrk(word, "0123456789"))
		return -ERANGE;
	*ret_bits = bits;
	return 0;
}

const char *scalar_type_of(const char *word)
{
	const char *colon = strchr(word, ':');
	int type = colon ? scalar_type_find(word, (size_t)(colon - word)) : -1;

	return type < 0 ? NULL : scalar_types[type].name;
}

int scalar_parse(const char *word, struct scalar *ret_scalar)
{
	const char *colon = strchr(word, ':');
	enum scalar_type type;
	uint64_t bits;
	int r;

	if (!colon)
		return -EINVAL;
	r = scalar_type_find(word, (size_t)(colon - word));
	if (r < 0)
		return r;
	type = (enum scalar_type)r;
	if (scalar_types[type].is_float)
		r = float_bits(colon + 1, type, &bits);
	else
		r = integer_bits(colon + 1, scalar_types[type].size,
				 scalar_types[type].is_signed, &bits);
	if (r < 0)
		return r;
	*ret_scalar = (struct scalar){ .type = type, .bits = bits };
	return 0;
}

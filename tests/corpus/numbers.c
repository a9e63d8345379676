/* SPDX-License-Identifier: MIT */
/* Floating point numbers and conversions, against the host's own. */
#include "corpus.h"

#include <device.h>

#include "host_conversions.h"
#include "host_numbers.h"

#include <bfloats.h>
#include <convert.h>
#include <doubles.h>
#include <halves.h>
#include <singles.h>

CORPUS(numbers);
CORPUS(conversions);

Test(numbers, of_32_bits)
{
	corpus_torture("singles", "singles", CORPUS_SINGLES, N_SINGLES, singles_one);
}

Test(numbers, of_64_bits)
{
	corpus_torture("doubles", "doubles", CORPUS_DOUBLES, N_DOUBLES, doubles_one);
}

Test(numbers, of_16_bits)
{
	corpus_torture("halves", "halves", CORPUS_HALVES, N_HALVES, halves_one);
}

Test(numbers, of_16_bits_with_a_long_exponent)
{
	corpus_torture("bfloats", "bfloats", CORPUS_BFLOATS, N_BFLOATS, bfloats_one);
}

Test(conversions, of_integers)
{
	corpus_torture("convert", "convert", CORPUS_INTEGERS, N_CONVERT, convert_one);
}

Test(conversions, of_numbers_of_32_bits)
{
	corpus_torture("convert", "convert", CORPUS_SINGLES, N_CONVERT, convert_one);
}

Test(conversions, of_numbers_of_64_bits)
{
	corpus_torture("convert", "convert", CORPUS_DOUBLES, N_CONVERT, convert_one);
}

Test(conversions, of_numbers_of_16_bits)
{
	corpus_torture("convert", "convert", CORPUS_HALVES, N_CONVERT, convert_one);
}

/* SPDX-License-Identifier: MIT */
/* Integers and bits, against the host's own. */
#include "corpus.h"

#include <bits.h>
#include <integer.h>

CORPUS(integers);

Test(integers, arithmetic)
{
	corpus_torture("integer", "integer", CORPUS_INTEGERS, N_INTEGER, integer_one);
}

Test(integers, bits)
{
	corpus_torture("bits", "bits", CORPUS_INTEGERS, N_BITS, bits_one);
}

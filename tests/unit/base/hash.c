/* SPDX-License-Identifier: MIT */
#include "base/hash.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 2000

struct thing {
	char name[16];
	UT_hash_handle hh;
};

/* Names of one value of uthash's own hash, which anybody can find. */
Test(hash, names_of_one_known_hash_are_spread)
{
	struct thing *things = NULL, *thing, *next;
	unsigned int longest = 0;

	for (unsigned int i = 0, n = 0; n < N; i++) {
		unsigned int known;

		thing = calloc(1, sizeof(*thing));
		snprintf(thing->name, sizeof(thing->name), "n%u", i);
		HASH_JEN(thing->name, strlen(thing->name), known);
		if (known % 1024) {
			free(thing);
			continue;
		}
		HASH_ADD_STR(things, name, thing);
		n++;
	}
	for (unsigned int i = 0; i < things->hh.tbl->num_buckets; i++)
		longest = things->hh.tbl->buckets[i].count > longest
				  ? things->hh.tbl->buckets[i].count
				  : longest;
	cr_assert(lt(uint, longest, 32));
	HASH_ITER (hh, things, thing, next) {
		HASH_DEL(things, thing);
		free(thing);
	}
}

/* This program, run again by the test below, prints the hash of a name. */
__attribute__((constructor)) static void print_hash(void)
{
	if (!getenv("PRINT_HASH"))
		return;
	printf("%u\n", hash_of("name", 4));
	exit(0);
}

static unsigned long hash_in_another_process(void)
{
	FILE *output = popen("PRINT_HASH=1 /proc/$PPID/exe", "r");
	unsigned long value;

	cr_assert(ne(ptr, output, NULL));
	cr_assert(eq(int, fscanf(output, "%lu", &value), 1));
	pclose(output);
	return value;
}

/* Two are alike once in 2^32 runs. */
Test(hash, another_process_has_another_hash)
{
	unsigned long first = hash_in_another_process();

	cr_assert(first != hash_in_another_process());
	cr_assert(eq(uint, hash_of("name", 4), hash_of("name", 4)));
}

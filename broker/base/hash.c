/* SPDX-License-Identifier: MIT */
#include "base/hash.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <sodium/crypto_shorthash.h>
#include <sys/random.h>

static unsigned char secret[crypto_shorthash_KEYBYTES];

/* Before main() and other constructors: there are no tables and no threads yet. */
__attribute__((constructor(101))) static void draw_secret(void)
{
	if (getrandom(secret, sizeof(secret), 0) != (ssize_t)sizeof(secret))
		abort();
}

unsigned int hash_of(const void *key, size_t length)
{
	unsigned char value[crypto_shorthash_BYTES];
	uint32_t low;

	crypto_shorthash(value, key, length, secret);
	memcpy(&low, value, sizeof(low));
	return low;
}

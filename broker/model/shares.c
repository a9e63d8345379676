/* SPDX-License-Identifier: MIT */
#include "model/shares.h"

#include <assert.h>
#include <errno.h>

#include "model/registry.h"

static const struct {
	const char *what;
	uint64_t most;
	int error; /* beyond that */
} rows[N_SHARES] = {
	[SHARE_OPERATIONS] = { "operations queued", 65536, EBUSY },
	[SHARE_WRITES] = { "bytes of writes waiting", (uint64_t)256 << 20, EBUSY },
};

int share_take(struct owner *owner, enum share share, uint64_t n)
{
	uint64_t *held = &owner->shares.held[share];

	if (*held + n > rows[share].most)
		return -rows[share].error;
	*held += n;
	return 0;
}

void share_take_beyond(struct owner *owner, enum share share, uint64_t n)
{
	owner->shares.held[share] += n;
}

void share_give(struct owner *owner, enum share share, uint64_t n)
{
	assert(owner->shares.held[share] >= n);
	owner->shares.held[share] -= n;
}

void share_explain(const struct owner *owner, enum share share, uint64_t n,
		   struct text *text)
{
	text_printf(text, "uid %u has %llu %s, with %llu more it would be over %llu",
		    owner->uid, (unsigned long long)owner->shares.held[share],
		    rows[share].what, (unsigned long long)n,
		    (unsigned long long)rows[share].most);
}

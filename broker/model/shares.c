/* SPDX-License-Identifier: MIT */
#include "model/shares.h"

#include <assert.h>
#include <errno.h>

#include "base/descriptor.h"
#include "model/access.h"
#include "model/registry.h"

static const struct {
	const char *what;
	uint64_t most;
	int error; /* when the share is used up */
} rows[N_SHARES] = {
	[SHARE_ALLOCATIONS] = { "allocations", 262144, EDQUOT },
	[SHARE_DESCRIPTORS] = { "descriptors of the broker", 0, EMFILE },
	[SHARE_IMAGES] = { "bytes of open images", (uint64_t)1 << 30, EDQUOT },
	[SHARE_LOADED] = { "bytes of images in modules", (uint64_t)4 << 30, EDQUOT },
	[SHARE_MODULES] = { "modules", 4096, EDQUOT },
	[SHARE_READERS] = { "readers of events_pipe", 256, EMFILE },
	[SHARE_OPERATIONS] = { "operations queued", 65536, EBUSY },
	[SHARE_QUESTIONS] = { "reads that wait for a driver", 1024, EBUSY },
	[SHARE_WRITES] = { "bytes of writes waiting", (uint64_t)256 << 20, EBUSY },
};

/*
 * The share of descriptors is an eighth of the process's limit, so that enough remain for
 * workers and other owners.
 */
static uint64_t share_most(enum share share)
{
	return share == SHARE_DESCRIPTORS ? descriptors_most() / 8 : rows[share].most;
}

int share_take(struct owner *owner, enum share share, uint64_t n)
{
	uint64_t *held = &owner->shares.held[share];

	if (*held + n > share_most(share))
		return -rows[share].error;
	if (share == SHARE_DESCRIPTORS && n && !descriptor_is_left())
		return -EMFILE;
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

int share_take_question(struct registry *registry, const struct caller *caller,
			struct owner **ret_payer, struct text *text)
{
	struct owner *payer = NULL;
	int r = 0;

	if (caller) {
		payer = owner_get(registry, caller->uid, caller->gid);
		r = payer ? share_take(payer, SHARE_QUESTIONS, 1) : -ENOMEM;
	}
	if (r == -ENOMEM)
		text_printf(text, "no memory in the broker");
	else if (r < 0)
		share_explain(payer, SHARE_QUESTIONS, 1, text);
	else
		*ret_payer = payer;
	return r;
}

void share_explain(const struct owner *owner, enum share share, uint64_t n,
		   struct text *text)
{
	if (share == SHARE_DESCRIPTORS &&
	    owner->shares.held[share] + n <= share_most(share)) {
		text_printf(text, DESCRIPTORS_GONE);
		return;
	}
	text_printf(text, "uid %u has %llu %s, with %llu more it would be over %llu",
		    owner->uid, (unsigned long long)owner->shares.held[share],
		    rows[share].what, (unsigned long long)n,
		    (unsigned long long)share_most(share));
}

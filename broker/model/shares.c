/* SPDX-License-Identifier: MIT */
#include "model/shares.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "base/descriptor.h"
#include "base/number.h"
#include "base/text.h"
#include "model/access.h"
#include "model/owner.h"
#include "model/registry.h"

static const struct {
	const char *what;
	uint64_t most;
	int error;     /* when the share is used up */
	bool is_bytes; /* else a count */
} rows[N_SHARES] = {
	[SHARE_ALLOCATIONS] = { "allocations", 262144, EDQUOT },
	[SHARE_DESCRIPTORS] = { "descriptors of the broker", 0, EMFILE },
	[SHARE_CGROUPS] = { "cgroups with allocations", 4096, EDQUOT },
	[SHARE_IMAGES] = { "of open images and tensors", (uint64_t)1 << 30, EDQUOT,
			   true },
	[SHARE_LOADED] = { "of images in modules", (uint64_t)4 << 30, EDQUOT, true },
	[SHARE_NAMES] = { "of names of functions", (uint64_t)256 << 20, EDQUOT, true },
	[SHARE_LOGS] = { "of logs of modules", (uint64_t)64 << 20, EDQUOT, true },
	[SHARE_MODULES] = { "modules", 4096, EDQUOT },
	[SHARE_FOLDERS] = { "folders", 16384, EDQUOT },
	[SHARE_READERS] = { "readers of events_pipe", 256, EMFILE },
	[SHARE_TENSORS] = { "of tensors", (uint64_t)256 << 20, EDQUOT, true },
	[SHARE_TEXTS] = { "of texts in open descriptors", (uint64_t)64 << 20, EDQUOT,
			  true },
	[SHARE_OPERATIONS] = { "operations queued", 65536, EBUSY },
	[SHARE_QUESTIONS] = { "reads that wait for a driver", 1024, EBUSY },
	[SHARE_PATHS] = { "of paths of loads and saves queued", (uint64_t)16 << 20, EBUSY,
			  true },
	[SHARE_FILE_PROCESSES] = { "processes that open files", 4, EBUSY },
	[SHARE_WRITES] = { "of writes waiting", (uint64_t)256 << 20, EBUSY, true },
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
	struct owner *payer = owner_get(registry, caller->uid, caller->gid);
	int r = payer ? share_take(payer, SHARE_QUESTIONS, 1) : -ENOMEM;

	if (r == -ENOMEM)
		text_printf(text, "no memory in the broker");
	else if (r < 0)
		share_explain(payer, SHARE_QUESTIONS, 1, text);
	else
		*ret_payer = payer;
	return r;
}

static const char *amount(enum share share, uint64_t n, char text[64])
{
	if (rows[share].is_bytes)
		return size_print(text, n);
	snprintf(text, 64, "%llu", (unsigned long long)n);
	return text;
}

void share_explain(const struct owner *owner, enum share share, uint64_t n,
		   struct text *text)
{
	if (share == SHARE_DESCRIPTORS &&
	    owner->shares.held[share] + n <= share_most(share)) {
		text_printf(text, DESCRIPTORS_GONE);
		return;
	}
	text_printf(text, "uid %u has %s %s and asks for %s more: the limit is %s",
		    owner->uid, amount(share, owner->shares.held[share], (char[64]){ 0 }),
		    rows[share].what, amount(share, n, (char[64]){ 0 }),
		    amount(share, share_most(share), (char[64]){ 0 }));
}

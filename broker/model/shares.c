/* SPDX-License-Identifier: MIT */
#include "model/shares.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/def.h"
#include "base/descriptor.h"
#include "base/number.h"
#include "base/text.h"
#include "model/access.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/save.h"

struct share_row {
	const char *key; /* NULL: it has no limits */
	const char *what;
	uint64_t most;
	int error;     /* when the share is used up */
	bool is_bytes; /* else a count */
	bool of_host;  /* counts in SHARE_HOST, too */
};

#define UNBOUNDED UINT64_MAX

static const struct share_row rows[N_SHARES] = {
	[SHARE_DEVICE] = { "device", "of the memory of device", UNBOUNDED, EDQUOT, true },
	[SHARE_HOST] = { "host", "of host memory", UNBOUNDED, EDQUOT, true },
	[SHARE_ALLOCATIONS] = { "allocations", "allocations", UNBOUNDED, EDQUOT },
	[SHARE_MODULES] = { "modules", "modules", 4096, EDQUOT },
	[SHARE_STREAMS] = { "streams", "streams", UNBOUNDED, EDQUOT },
	[SHARE_LEASES] = { "leases", "leases open", 4096, EMFILE },
	[SHARE_OPERATIONS] = { "operations", "operations queued", 8192, EBUSY },
	[SHARE_RECORDS] = { NULL, "allocations", 262144, EDQUOT },
	[SHARE_DESCRIPTORS] = { NULL, "descriptors of the broker", 0, EMFILE },
	[SHARE_CGROUPS] = { NULL, "cgroups with allocations", 4096, EDQUOT },
	[SHARE_IMAGES] = { NULL, "of open images and tensors", (uint64_t)1 << 30, EDQUOT,
			   true, true },
	[SHARE_LOADED] = { NULL, "of images in modules", (uint64_t)4 << 30, EDQUOT, true,
			   true },
	[SHARE_NAMES] = { NULL, "of names of functions", (uint64_t)256 << 20, EDQUOT,
			  true },
	[SHARE_LOGS] = { NULL, "of logs of modules", (uint64_t)64 << 20, EDQUOT, true },
	[SHARE_FOLDERS] = { NULL, "folders", 16384, EDQUOT },
	[SHARE_READERS] = { NULL, "readers of events_pipe", 256, EMFILE },
	[SHARE_TENSORS] = { NULL, "of tensors", (uint64_t)256 << 20, EDQUOT, true, true },
	[SHARE_TEXTS] = { NULL, "of texts in open descriptors", (uint64_t)64 << 20,
			  EDQUOT, true },
	[SHARE_CHORES] = { NULL, "frees, moves and zeroings queued", UNBOUNDED, EBUSY },
	[SHARE_ORDER] = { NULL, "waits of operations for one another", 1 << 20, EBUSY },
	[SHARE_USES] = { NULL, "allocations in operations queued", 1 << 15, EBUSY },
	[SHARE_QUESTIONS] = { NULL, "reads that wait for an answer", 1024, EBUSY },
	[SHARE_PATHS] = { NULL, "of paths of loads and saves queued", (uint64_t)16 << 20,
			  EBUSY, true },
	[SHARE_FILE_PROCESSES] = { NULL, "processes that open files", 4, EBUSY },
	[SHARE_WAITS] = { NULL, "allocations that wait for memory", 1024, EBUSY },
	[SHARE_WRITES] = { NULL, "of writes waiting", (uint64_t)256 << 20, EBUSY, true },
};

/* All devices have one row. */
static const struct share_row *row_of(enum share share)
{
	return &rows[share < SHARE_HOST ? SHARE_DEVICE : share];
}

const char *share_key(enum share share, char text[SHARE_KEY_SIZE])
{
	if (share < SHARE_HOST)
		snprintf(text, SHARE_KEY_SIZE, "%s:%u", row_of(share)->key,
			 (share - SHARE_DEVICE) % DEVICES_MAX);
	else
		snprintf(text, SHARE_KEY_SIZE, "%s", row_of(share)->key);
	return text;
}

bool share_is_bytes(enum share share)
{
	return row_of(share)->is_bytes;
}

/*
 * The share of descriptors is an eighth of the process's limit, so that enough remain for
 * workers and other owners.
 */
static uint64_t share_most(enum share share)
{
	return share == SHARE_DESCRIPTORS ? descriptors_most() / 8 : row_of(share)->most;
}

uint64_t share_limit(const struct owner *owner, enum share share)
{
	const struct limits *limits = &owner->shares.limits;
	const struct limits *defaults = owner->shares.defaults;
	uint64_t most = LIMIT_NONE;

	if (share >= N_LIMITS)
		return LIMIT_NONE;
	if (defaults && defaults->given >> share & 1)
		most = defaults->max[share];
	if (!(limits->given >> share & 1))
		return most;
	/* An owner's own value must not evade a default that root lowers later. */
	return limits->own >> share & 1 ? MIN(limits->max[share], most)
					: limits->max[share];
}

/* Whether n more are beyond a limit. A limit may be set below the amount that is held. */
static bool is_beyond(uint64_t held, uint64_t n, uint64_t limit)
{
	return n && limit != UINT64_MAX && (held > limit || n > limit - held);
}

static int share_refuse(struct owner *owner, enum share share, uint64_t n, uint64_t limit,
			bool is_limit, int error)
{
	struct shares *shares = &owner->shares;

	shares->refused.share = share;
	shares->refused.n = n;
	shares->refused.limit = limit;
	shares->refused.is_limit = is_limit;
	return -error;
}

int share_take(struct owner *owner, enum share share, uint64_t n)
{
	struct shares *shares = &owner->shares;
	uint64_t limit = share_limit(owner, share), most = share_most(share);
	uint64_t *held = &shares->held[share];
	int r = 0;

	if (n > UINT64_MAX - *held)
		return -ENOMEM;
	if (limit <= most && is_beyond(*held, n, limit))
		return share_refuse(owner, share, n, limit, true, EDQUOT);
	if (is_beyond(*held, n, most) ||
	    (share == SHARE_DESCRIPTORS && n && !descriptor_is_left()))
		return share_refuse(owner, share, n, most, false, row_of(share)->error);
	if (row_of(share)->of_host)
		r = share_take(owner, SHARE_HOST, n);
	if (r < 0)
		return r;
	*held += n;
	return 0;
}

void share_take_beyond(struct owner *owner, enum share share, uint64_t n)
{
	assert(share >= N_LIMITS && !row_of(share)->of_host);
	owner->shares.held[share] += n;
}

void share_restore(struct owner *owner, enum share share, uint64_t n)
{
	owner->shares.held[share] += n;
	if (row_of(share)->of_host)
		share_restore(owner, SHARE_HOST, n);
}

uint64_t share_left(struct owner *owner, enum share share)
{
	uint64_t held = owner->shares.held[share], most = share_most(share);

	assert(share >= N_LIMITS);
	return most - MIN(held, most);
}

/* Only here the amount held goes down, so a peak need not be noted anywhere else. */
void share_give(struct owner *owner, enum share share, uint64_t n)
{
	struct shares *shares = &owner->shares;

	if (share < N_LIMITS && shares->held[share] > shares->peak[share]) {
		shares->peak[share] = shares->held[share];
		owner_save_counts(owner, share);
	}
	share_undo(owner, share, n);
	if (row_of(share)->of_host)
		share_give(owner, SHARE_HOST, n);
}

void share_undo(struct owner *owner, enum share share, uint64_t n)
{
	assert(owner->shares.held[share] >= n);
	owner->shares.held[share] -= n;
}

uint64_t share_peak(const struct owner *owner, enum share share)
{
	return MAX(owner->shares.peak[share], owner->shares.held[share]);
}

/* ---- memory of workers ---- */

/* As the driver has it: pieces up to SMALL_MAX share chunks. */
#define CHUNK	  ((uint64_t)2 << 20)
#define SMALL_MAX ((uint64_t)1 << 20)

static uint64_t chunks(uint64_t size)
{
	return size > UINT64_MAX - CHUNK ? size : align_up(size, CHUNK);
}

/* The bytes of chunks that a small piece takes, or leaves. */
static uint64_t chunks_between(uint64_t small, uint64_t large)
{
	return chunks(large) - chunks(small);
}

int share_take_pieces(struct owner *owner, uint32_t device, bool async, uint64_t size)
{
	uint64_t *small = &owner->shares.small[device][async];
	int r;

	if (size > SMALL_MAX)
		return share_take(owner, SHARE_DEVICE + device, chunks(size));
	r = share_take(owner, SHARE_DEVICE + device,
		       chunks_between(*small, *small + size));
	if (r == 0)
		*small += size;
	return r;
}

void share_give_pieces(struct owner *owner, uint32_t device, bool async, uint64_t size,
		       bool undo)
{
	uint64_t *small = &owner->shares.small[device][async];
	uint64_t bytes = chunks(size);

	if (size <= SMALL_MAX) {
		*small -= size;
		bytes = chunks_between(*small, *small + size);
	}
	(undo ? share_undo : share_give)(owner, SHARE_DEVICE + device, bytes);
}

bool share_is_refusal(int r)
{
	return r == -EDQUOT || r == -EBUSY || r == -EMFILE;
}

int share_take_question(struct registry *registry, const struct caller *caller,
			struct owner **ret_payer, struct text *text)
{
	struct owner *payer = owner_get(registry, caller->uid, caller->gid);
	int r = payer ? share_take(payer, SHARE_QUESTIONS, 1) : -ENOMEM;

	if (r == -ENOMEM)
		text_printf(text, "no memory in the broker");
	else if (r < 0)
		share_explain(payer, text);
	else
		*ret_payer = payer;
	return r;
}

const char *share_text(enum share share, uint64_t n, char text[64])
{
	if (n == LIMIT_NONE)
		return strcpy(text, "max");
	if (row_of(share)->is_bytes)
		return size_print(text, n);
	snprintf(text, 64, "%llu", (unsigned long long)n);
	return text;
}

void share_explain(struct owner *owner, struct text *text)
{
	struct shares *shares = &owner->shares;
	enum share share = shares->refused.share;
	uint64_t held = shares->held[share], n = shares->refused.n;
	uint64_t limit = shares->refused.limit;
	char number[8] = "";

	if (share < N_LIMITS) {
		shares->n_refused[share]++;
		owner_save_counts(owner, share);
	}
	if (share == SHARE_DESCRIPTORS && !is_beyond(held, n, limit)) {
		text_printf(text, DESCRIPTORS_GONE);
		return;
	}
	if (share < SHARE_HOST)
		snprintf(number, sizeof(number), " %u", share - SHARE_DEVICE);
	text_printf(text, "uid %u has %s %s%s", owner->uid,
		    share_text(share, held, (char[64]){ 0 }), row_of(share)->what,
		    number);
	if (share == SHARE_HOST && shares->still_mapped)
		text_printf(text, " (%s of it were freed, and programs have that mapped)",
			    size_text(shares->still_mapped));
	text_printf(text, " and asks for %s more: the limit is %s",
		    share_text(share, n, (char[64]){ 0 }),
		    share_text(share, limit, (char[64]){ 0 }));
	if (shares->refused.is_limit)
		text_printf(text, " (owners/%u/max)", owner->uid);
}

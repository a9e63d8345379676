/* SPDX-License-Identifier: MIT */
/*
 * Special registers, and the few addresses known only while a kernel runs: a table of
 * names, each with a way to find the value.
 */
#include "parser.h"
#include "warp.h"

#include <time.h>

struct special {
	const char *name; /* a name that ends with # is numbered */
	enum type type;
	uint64_t (*get)(const struct warp *warp, uint32_t lane, uint32_t number);
	bool differs; /* from lane to lane */
};

static uint32_t dim_get(const struct ptx_dim *dim, uint32_t axis)
{
	return axis == 0 ? dim->x : axis == 1 ? dim->y : dim->z;
}

static const struct ptx_launch *launch_of(const struct warp *warp)
{
	return warp->block->grid->launch;
}

static struct ptx_dim cluster_size(const struct warp *warp)
{
	const struct ptx_dim cluster = launch_of(warp)->cluster;

	return cluster.x ? cluster : (struct ptx_dim){ 1, 1, 1 };
}

#define GET(name)                                                          \
	static uint64_t get_##name(const struct warp *warp, uint32_t lane, \
				   uint32_t number)

GET(tid)
{
	return warp->tid[number][lane];
}

GET(ntid)
{
	(void)lane;
	return dim_get(&launch_of(warp)->block, number);
}

GET(ctaid)
{
	(void)lane;
	return dim_get(&warp->block->index, number);
}

GET(nctaid)
{
	(void)lane;
	return dim_get(&launch_of(warp)->grid, number);
}

GET(cluster_ctaid)
{
	const struct ptx_dim size = cluster_size(warp);

	(void)lane;
	return dim_get(&warp->block->index, number) % dim_get(&size, number);
}

GET(cluster_nctaid)
{
	const struct ptx_dim size = cluster_size(warp);

	(void)lane;
	return dim_get(&size, number);
}

GET(clusterid)
{
	const struct ptx_dim size = cluster_size(warp);

	(void)lane;
	return dim_get(&warp->block->index, number) / dim_get(&size, number);
}

GET(nclusterid)
{
	const struct ptx_dim size = cluster_size(warp);

	(void)lane;
	return dim_get(&launch_of(warp)->grid, number) / dim_get(&size, number);
}

GET(cluster_ctarank)
{
	const struct ptx_dim size = cluster_size(warp);
	const struct ptx_dim at = warp->block->index;

	(void)lane;
	(void)number;
	return at.x % size.x + size.x * (at.y % size.y + size.y * (at.z % size.z));
}

GET(cluster_nctarank)
{
	const struct ptx_dim size = cluster_size(warp);

	(void)lane;
	(void)number;
	return size.x * size.y * size.z;
}

GET(is_explicit_cluster)
{
	(void)lane;
	(void)number;
	return launch_of(warp)->cluster.x != 0;
}

GET(laneid)
{
	(void)warp;
	(void)number;
	return lane;
}

GET(warpid)
{
	(void)lane;
	(void)number;
	return warp->index;
}

GET(nwarpid)
{
	(void)warp;
	(void)lane;
	(void)number;
	return 64;
}

GET(smid)
{
	(void)lane;
	(void)number;
	return warp->block->number % launch_of(warp)->machine->n_processors;
}

GET(nsmid)
{
	(void)lane;
	(void)number;
	return launch_of(warp)->machine->n_processors;
}

GET(gridid)
{
	(void)lane;
	(void)number;
	return launch_of(warp)->id;
}

GET(lanemask_eq)
{
	(void)warp;
	(void)number;
	return 1U << lane;
}

GET(lanemask_lt)
{
	(void)warp;
	(void)number;
	return (1U << lane) - 1;
}

GET(lanemask_le)
{
	return get_lanemask_lt(warp, lane, number) | 1U << lane;
}

GET(lanemask_gt)
{
	return (uint32_t)~get_lanemask_le(warp, lane, number);
}

GET(lanemask_ge)
{
	return (uint32_t)~get_lanemask_lt(warp, lane, number);
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

GET(clock)
{
	(void)warp;
	(void)lane;
	(void)number;
	return (uint32_t)clock_ns(CLOCK_MONOTONIC);
}

GET(clock_hi)
{
	(void)warp;
	(void)lane;
	(void)number;
	return clock_ns(CLOCK_MONOTONIC) >> 32;
}

GET(clock64)
{
	(void)warp;
	(void)lane;
	(void)number;
	return clock_ns(CLOCK_MONOTONIC);
}

GET(globaltimer)
{
	(void)warp;
	(void)lane;
	(void)number;
	return clock_ns(CLOCK_REALTIME);
}

GET(globaltimer_lo)
{
	return (uint32_t)get_globaltimer(warp, lane, number);
}

GET(globaltimer_hi)
{
	return get_globaltimer(warp, lane, number) >> 32;
}

GET(dynamic_smem_size)
{
	(void)lane;
	(void)number;
	return launch_of(warp)->dynamic_shared;
}

GET(total_smem_size)
{
	(void)lane;
	(void)number;
	return warp->block->shared_size;
}

/* 1 and 2 are the address of a cooperative grid's workspace. */
GET(envreg)
{
	const uint64_t workspace = (uint64_t)(uintptr_t)warp->block->grid->workspace;

	(void)lane;
	if (!launch_of(warp)->cooperative)
		return 0;
	return number == 1 ? workspace >> 32 : number == 2 ? (uint32_t)workspace : 0;
}

#define AXES(name, differs)                                        \
	{ "%" #name ".x", TYPE_U32, get_##name, differs },         \
		{ "%" #name ".y", TYPE_U32, get_##name, differs }, \
	{                                                          \
		"%" #name ".z", TYPE_U32, get_##name, differs      \
	}

static const struct special specials[] = {
	AXES(tid, true),
	AXES(ntid, false),
	AXES(ctaid, false),
	AXES(nctaid, false),
	AXES(cluster_ctaid, false),
	AXES(cluster_nctaid, false),
	AXES(clusterid, false),
	AXES(nclusterid, false),
	{ "%cluster_ctarank", TYPE_U32, get_cluster_ctarank },
	{ "%cluster_nctarank", TYPE_U32, get_cluster_nctarank },
	{ "%is_explicit_cluster", TYPE_PRED, get_is_explicit_cluster },
	{ "%laneid", TYPE_U32, get_laneid, true },
	{ "%warpid", TYPE_U32, get_warpid },
	{ "%nwarpid", TYPE_U32, get_nwarpid },
	{ "%smid", TYPE_U32, get_smid },
	{ "%nsmid", TYPE_U32, get_nsmid },
	{ "%gridid", TYPE_U64, get_gridid },
	{ "%lanemask_eq", TYPE_U32, get_lanemask_eq, true },
	{ "%lanemask_le", TYPE_U32, get_lanemask_le, true },
	{ "%lanemask_lt", TYPE_U32, get_lanemask_lt, true },
	{ "%lanemask_ge", TYPE_U32, get_lanemask_ge, true },
	{ "%lanemask_gt", TYPE_U32, get_lanemask_gt, true },
	{ "%clock", TYPE_U32, get_clock },
	{ "%clock_hi", TYPE_U32, get_clock_hi },
	{ "%clock64", TYPE_U64, get_clock64 },
	{ "%globaltimer", TYPE_U64, get_globaltimer },
	{ "%globaltimer_lo", TYPE_U32, get_globaltimer_lo },
	{ "%globaltimer_hi", TYPE_U32, get_globaltimer_hi },
	{ "%dynamic_smem_size", TYPE_U32, get_dynamic_smem_size },
	{ "%total_smem_size", TYPE_U32, get_total_smem_size },
	{ "%envreg#", TYPE_B32, get_envreg },
};

static bool special_is(const struct special *special, const char *name, size_t length,
		       uint32_t *ret_number)
{
	const size_t n = strlen(special->name);

	*ret_number = 0;
	if (special->name[n - 1] != '#') {
		if (n != length || memcmp(special->name, name, n))
			return false;
		if (special->name[n - 2] == '.')
			*ret_number = (uint32_t)(special->name[n - 1] - 'x');
		return true;
	}
	if (length < n || length > n + 1 || memcmp(special->name, name, n - 1))
		return false;
	for (size_t i = n - 1; i < length; i++) {
		if (name[i] < '0' || name[i] > '9')
			return false;
		*ret_number = *ret_number * 10 + (uint32_t)(name[i] - '0');
	}
	return *ret_number < 32;
}

const struct special *special_find(const char *name, size_t length, uint32_t *ret_number)
{
	for (size_t i = 0; i < ARRAY_SIZE(specials); i++)
		if (special_is(&specials[i], name, length, ret_number))
			return &specials[i];
	return NULL;
}

enum type special_type(const struct special *special)
{
	return special->type;
}

static void op_special(struct warp *warp, const struct op *op, uint32_t mask)
{
	const struct special *special = &specials[op->target];
	uint64_t *to = warp_to(warp, op);

	EACH_LANE(i, mask)
	to[i] = special->get(warp, i, op->n_targets);
}

void special_op(const struct special *special, uint32_t number, struct operand to,
		struct op *ret)
{
	*ret = (struct op){
		.run = op_special,
		.guard = -1,
		.to = to,
		.target = (uint32_t)(special - specials),
		.n_targets = number,
	};
}

void op_not(struct warp *warp, const struct op *op, uint32_t mask)
{
	const uint64_t *from = warp_source(warp, op, 0);
	uint64_t *to = warp_to(warp, op);

	EACH_LANE(i, mask)
	to[i] = !from[i];
}

void op_local_address(struct warp *warp, const struct op *op, uint32_t mask)
{
	const uint64_t address = warp->frame->local_base + (uint64_t)op->offset;
	uint64_t *to = warp_to(warp, op);

	EACH_LANE(i, mask)
	to[i] = address;
}

void op_dynamic_shared(struct warp *warp, const struct op *op, uint32_t mask)
{
	uint64_t *to = warp_to(warp, op);

	EACH_LANE(i, mask)
	to[i] = warp->block->dynamic_base;
}

/* SPDX-License-Identifier: MIT */
/*
 * Totals of calls: how many, how long, how large, which failures.
 */
#pragma once

#include "ledger.bpf.h"
#include "maps.bpf.h"

/* The compiler knows nothing more of a number. */
#define OPAQUE(number) __asm__ volatile("" : "+r"(number))

/* Written so that the compiler makes no branch: each branch doubles the paths of the
 * verifier. */
static __always_inline __u32 log2_slot(__u64 value)
{
	__u64 slot = 0;

	for (int log2 = 5; log2 >= 0; log2--) {
		__u64 none = (value >> (1 << log2)) - 1;

		OPAQUE(none);
		none >>= 63; /* 1 if the value has fewer bits left */
		OPAQUE(none);
		value >>= (none ^ 1) << log2;
		slot += (none ^ 1) << log2;
	}
	return slot;
}

static __always_inline void count_result(__u32 call, __s32 result)
{
	struct result_key key = { .call = call, .result = result };
	__u64 *n = bpf_map_lookup_elem(&results, &key);

	if (n) {
		__sync_fetch_and_add(n, 1);
		return;
	}
	__u64 zero = 0;
	bpf_map_update_elem(&results, &key, &zero, BPF_NOEXIST);
	n = bpf_map_lookup_elem(&results, &key);
	if (n)
		__sync_fetch_and_add(n, 1);
}

/* Atomically, though the slot is this CPU's own: a program may be preempted by another.
 */
static __always_inline void count_call(__u32 call, __s32 result, __u64 duration,
				       __u64 bytes)
{
	struct call_stat *stat = bpf_map_lookup_elem(&stats, &call);
	if (!stat)
		return;
	__sync_fetch_and_add(&stat->time, duration);
	__u64 slot = log2_slot(duration);
	__sync_fetch_and_add(&stat->latency[slot < N_LATENCIES ? slot : N_LATENCIES - 1],
			     1);
	if (result) {
		__sync_fetch_and_add(&stat->failures, 1);
		count_result(call, result);
		return;
	}
	if (!bytes)
		return;
	__sync_fetch_and_add(&stat->bytes, bytes);
	slot = log2_slot(bytes);
	__sync_fetch_and_add(&stat->size[slot < N_SIZES ? slot : N_SIZES - 1], 1);
}

static __always_inline bool result_wanted(__s32 result, __u64 bytes)
{
	return (!filter_failed || result) && bytes >= size_min && bytes <= size_max;
}

static __always_inline bool emit_wanted(const volatile struct call_info *info,
					const struct outcome *outcome)
{
	if (info->emit == EMIT_FREED)
		return outcome->flags & RECORD_FREED &&
		       show_memories >> (outcome->memory & 31) & 1;
	return info->emit == EMIT_ALWAYS;
}

/* SPDX-License-Identifier: MIT */
/*
 * The ledger: the memory of every process, and the changes that each call makes.
 *
 * An entry is an allocation of a process; a process's totals are the sum of the process's
 * entries at all times. Memory is booked when the allocating call returns, and taken out
 * when the freeing call begins: once the driver has freed an address, another thread may
 * get the same address and book new memory there. A free that fails puts the entry back.
 */
#pragma once

#include "bucket.bpf.h"
#include "maps.bpf.h"
#include "thread.bpf.h"

static __always_inline bool memory_is_gpu(__u8 memory)
{
	return memory < N_GPU_MEMORIES;
}

/* Contexts own memory of these kinds. */
static __always_inline bool memory_has_context(__u8 memory)
{
	return memory == MEMORY_DEVICE || memory == MEMORY_MANAGED ||
	       memory == MEMORY_PINNED || memory == MEMORY_REGISTERED ||
	       memory == MEMORY_IMPORTED;
}

static __always_inline void raise_peak(__u64 *peak, __u64 now)
{
	__u64 old = *(volatile __u64 *)peak;

	if (old >= now)
		return;
	__u64 seen = __sync_val_compare_and_swap(peak, old, now);
	if (seen != old && seen < now) /* another thread was here: once more */
		__sync_val_compare_and_swap(peak, seen, now);
}

/* A number in a register, so that the verifier sees the same value checked and used. */
static __always_inline __u64 memory_index(__u8 memory)
{
	__u64 i = memory;

	__asm__ volatile("" : "+r"(i));
	return i;
}

/* Returns: the bytes of this kind that the process holds now. */
static __always_inline __u64 totals_add(struct process *process, __u8 memory, __u64 bytes,
					__u64 n)
{
	__u64 i = memory_index(memory);

	if (i >= N_MEMORIES)
		return 0;
	__u64 now = __sync_fetch_and_add(&process->held[i], bytes) + bytes;
	__sync_fetch_and_add(&process->n_held[i], n);
	raise_peak(&process->peak[i], now);
	if (memory_is_gpu(memory))
		raise_peak(&process->gpu_peak,
			   __sync_fetch_and_add(&process->gpu, bytes) + bytes);
	return now;
}

static __always_inline __u64 totals_take(struct process *process, __u8 memory,
					 __u64 bytes, __u64 n)
{
	__u64 i = memory_index(memory);

	if (i >= N_MEMORIES)
		return 0;
	__u64 now = __sync_fetch_and_add(&process->held[i], -bytes) - bytes;
	__sync_fetch_and_add(&process->n_held[i], -n);
	if (memory_is_gpu(memory))
		__sync_fetch_and_add(&process->gpu, -bytes);
	return now;
}

/* An entry with the same key belongs to memory whose free has not returned yet. */
static __always_inline bool ledger_put(const struct ledger_key *key,
				       const struct entry *entry, struct process *process)
{
	long error = bpf_map_update_elem(&ledger, key, entry, BPF_NOEXIST);
	if (error == -EEXIST) {
		struct entry *old = bpf_map_lookup_elem(&ledger, key);

		if (old)
			totals_take(process, old->memory, old->bytes, 1);
		error = bpf_map_update_elem(&ledger, key, entry, BPF_ANY);
	}
	if (error)
		count_lost(LOST_ENTRIES);
	return !error;
}

static __always_inline void outcome_booked(struct outcome *outcome,
					   const struct entry *entry,
					   struct process *process)
{
	outcome->held = totals_add(process, entry->memory, entry->bytes, 1);
	outcome->bytes = entry->bytes;
	outcome->memory = entry->memory;
	outcome->flags |= RECORD_BOOKED;
}

static __always_inline void ledger_book(const struct ledger_key *key,
					const struct entry *entry,
					struct process *process, struct outcome *outcome)
{
	if (ledger_put(key, entry, process))
		outcome_booked(outcome, entry, process);
}

/* Takes an entry out of the ledger, and the entry's bytes out of the totals. */
static __always_inline bool ledger_take(const struct ledger_key *key,
					struct entry *ret_entry, struct process *process)
{
	struct entry *entry = bpf_map_lookup_elem(&ledger, key);
	if (!entry)
		return false;
	*ret_entry = *entry;
	if (bpf_map_delete_elem(&ledger, key)) /* another thread was quicker */
		return false;
	totals_take(process, ret_entry->memory, ret_entry->bytes, 1);
	return true;
}

static __always_inline void ledger_restore(const struct ledger_key *key,
					   const struct entry *entry,
					   struct process *process)
{
	if (!bpf_map_update_elem(&ledger, key, entry, BPF_NOEXIST))
		totals_add(process, entry->memory, entry->bytes, 1);
}

/* --- allocations: in a bucket or in the ledger --- */

static __always_inline void alloc_book(const struct ledger_key *key,
				       const struct entry *entry, struct thread *thread,
				       struct process *process, struct outcome *outcome)
{
	struct entry old = { .memory = MEMORY_NONE };

	if (bucket_put(key, entry, thread, &old)) {
		totals_take(process, old.memory, old.bytes, 1);
		if (spilled)
			ledger_take(key, &old, process);
	} else {
		spilled = 1;
		if (!ledger_put(key, entry, process))
			return;
	}
	outcome_booked(outcome, entry, process);
}

static __always_inline bool alloc_take(const struct ledger_key *key,
				       struct entry *ret_entry, struct thread *thread,
				       struct process *process)
{
	if (!bucket_take(key, thread, ret_entry))
		return spilled && ledger_take(key, ret_entry, process);
	totals_take(process, ret_entry->memory, ret_entry->bytes, 1);
	return true;
}

/* The address may be another allocation's by now. */
static __always_inline void alloc_restore(const struct ledger_key *key,
					  const struct entry *entry,
					  struct thread *thread, struct process *process)
{
	struct outcome outcome = { 0 };

	if (!bucket_has(key, thread))
		alloc_book(key, entry, thread, process, &outcome);
}

static __always_inline void
outcome_freed(struct outcome *outcome, const struct entry *entry, struct process *process)
{
	outcome->flags |= RECORD_FREED;
	outcome->bytes += entry->bytes;
	outcome->memory = entry->memory;
	if (entry->memory < N_MEMORIES)
		outcome->held = process->held[entry->memory];
}
/* --- when a call begins --- */

static __always_inline void op_begin_free(const volatile struct call_info *info,
					  struct thread *thread, struct frame *frame,
					  struct process *process)
{
	struct ledger_key key = {
		.process = thread->process,
		.address = frame->args[0],
		.space = info->space,
	};
	if (info->address_is_int)
		key.address = frame->args[0] = (__u32)key.address;
	frame->has_taken = alloc_take(&key, &frame->taken, thread, process);
}

/* --- when a call returns --- */

static __always_inline void op_alloc(const volatile struct call_info *info,
				     struct thread *thread, struct process *process,
				     __u64 address, struct entry *entry,
				     struct outcome *outcome)
{
	struct ledger_key key = {
		.process = thread->process,
		.address = address,
		.space = info->space,
	};
	if (!address)
		return;
	entry->memory = info->memory;
	if (memory_has_context(info->memory))
		entry->context = context_current(thread);
	alloc_book(&key, entry, thread, process, outcome);
}

static __always_inline void alloc_done(const volatile struct call_info *info,
				       struct thread *thread, const struct frame *frame,
				       struct process *process, __u64 out,
				       struct entry *entry, struct outcome *outcome)
{
	__u64 address = info->op == OP_REGISTER ? frame->args[0] : out;

	op_alloc(info, thread, process, address, entry, outcome);
}

static __always_inline void free_done(const struct frame *frame, struct process *process,
				      struct outcome *outcome)
{
	if (frame->has_taken)
		outcome_freed(outcome, &frame->taken, process);
	else if (frame->args[0])
		outcome->flags |= RECORD_UNKNOWN;
}

/* SPDX-License-Identifier: MIT */
/*
 * The ledger: what every process holds, and what each call does to it.
 *
 * An entry is one allocation of one process; the totals of its process are the sum of its
 * entries at all times. Memory is booked when the call that made it returns, and taken
 * out when the call that frees it begins: by the time the driver has freed an address,
 * another thread may get the same one and book it. A free that fails puts the entry back.
 *
 * Memory of cuMemCreate() lives as long as a handle or a mapping refers to it. Handles
 * and mappings therefore refer to a numbered SPACE_PHYSICAL entry, which counts them and
 * carries the bytes. Imported memory's size is not known before it is mapped: there the
 * mappings carry the bytes.
 *
 * The end of a context takes along what was made in it: device, managed and host memory,
 * not pools and not virtual memory management.
 */
#pragma once

#include "maps.bpf.h"
#include "thread.bpf.h"

/* What a call did, for its record. */
struct outcome {
	__u64 bytes;
	__u64 held;
	__u32 n_freed;
	__u8 memory;
	__u8 flags;
};

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

/* Returns: what the process holds of that kind now. */
static __always_inline __u64 totals_add(struct process *process, __u8 memory, __u64 bytes,
					__u64 n)
{
	if (memory >= N_MEMORIES)
		return 0;
	__u64 now = __sync_fetch_and_add(&process->held[memory], bytes) + bytes;
	__sync_fetch_and_add(&process->n_held[memory], n);
	raise_peak(&process->peak[memory], now);
	if (memory_is_gpu(memory))
		raise_peak(&process->gpu_peak,
			   __sync_fetch_and_add(&process->gpu, bytes) + bytes);
	return now;
}

static __always_inline __u64 totals_take(struct process *process, __u8 memory,
					 __u64 bytes, __u64 n)
{
	if (memory >= N_MEMORIES)
		return 0;
	__u64 now = __sync_fetch_and_add(&process->held[memory], -bytes) - bytes;
	__sync_fetch_and_add(&process->n_held[memory], -n);
	if (memory_is_gpu(memory))
		__sync_fetch_and_add(&process->gpu, -bytes);
	return now;
}

/* An entry that is found in the way belongs to memory whose free has not returned yet. */
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

static __always_inline void ledger_book(const struct ledger_key *key,
					const struct entry *entry,
					struct process *process, struct outcome *outcome)
{
	if (!ledger_put(key, entry, process))
		return;
	outcome->held = totals_add(process, entry->memory, entry->bytes, 1);
	outcome->bytes = entry->bytes;
	outcome->memory = entry->memory;
	outcome->flags |= RECORD_BOOKED;
}

/* Take an entry out, and its bytes out of the totals. */
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

static __always_inline void
outcome_freed(struct outcome *outcome, const struct entry *entry, struct process *process)
{
	outcome->flags |= RECORD_FREED;
	outcome->bytes += entry->bytes;
	outcome->memory = entry->memory;
	if (entry->memory < N_MEMORIES)
		outcome->held = process->held[entry->memory];
}

/* One handle or mapping less; the last one frees the memory. */
static __always_inline void physical_unref(__u64 id, const struct thread *thread,
					   struct process *process,
					   struct outcome *outcome)
{
	struct ledger_key key = {
		.process = thread->process,
		.address = id,
		.space = SPACE_PHYSICAL,
	};
	struct entry *physical = bpf_map_lookup_elem(&ledger, &key);
	if (!physical || __sync_fetch_and_add(&physical->references, -1) != 1)
		return;

	struct entry taken;
	if (ledger_take(&key, &taken, process))
		outcome_freed(outcome, &taken, process);
}

/* --- when a call begins --- */

static __always_inline void op_begin_free(const volatile struct call_info *info,
					  const struct thread *thread,
					  struct frame *frame, struct process *process)
{
	struct ledger_key key = {
		.process = thread->process,
		.address = frame->args[0],
		.space = info->space,
	};
	if (info->address_is_int)
		key.address = frame->args[0] = (__u32)key.address;
	frame->has_taken = ledger_take(&key, &frame->taken, process);
}

/* A handle that was retained stands for several. */
static __always_inline void op_begin_release(const struct thread *thread,
					     struct frame *frame)
{
	struct ledger_key key = {
		.process = thread->process,
		.address = frame->args[0],
		.space = SPACE_HANDLE,
	};
	struct entry *handle = bpf_map_lookup_elem(&ledger, &key);
	if (!handle)
		return;
	frame->taken = *handle;
	frame->has_taken = 1;
	if (__sync_fetch_and_add(&handle->references, -1) == 1)
		bpf_map_delete_elem(&ledger, &key);
}

/* --- when it returns --- */

static __always_inline void op_alloc(const volatile struct call_info *info,
				     const struct thread *thread, struct process *process,
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
	ledger_book(&key, entry, process, outcome);
}

/* New memory, and its first handle. */
static __always_inline void op_create(const volatile struct call_info *info,
				      const struct thread *thread,
				      struct process *process, __u64 handle,
				      struct entry *entry, struct outcome *outcome)
{
	struct ledger_key key = {
		.process = thread->process,
		.address = entry->time ^ (__u64)entry->tid
						 << 40, /* a number of its own */
		.space = SPACE_PHYSICAL,
	};
	entry->memory = info->memory;
	entry->references = 1;
	ledger_book(&key, entry, process, outcome);
	if (!(outcome->flags & RECORD_BOOKED))
		return;

	entry->physical = key.address;
	entry->memory = MEMORY_NONE;
	entry->bytes = 0;
	key.address = handle;
	key.space = SPACE_HANDLE;
	ledger_put(&key, entry, process);
}

static __always_inline void physical_ref(__u64 id, const struct thread *thread)
{
	struct ledger_key key = {
		.process = thread->process,
		.address = id,
		.space = SPACE_PHYSICAL,
	};
	struct entry *physical = bpf_map_lookup_elem(&ledger, &key);
	if (physical)
		__sync_fetch_and_add(&physical->references, 1);
}

/* One more owner of the memory behind a mapping: a new handle, or the same again. */
static __always_inline void op_retain(const struct thread *thread,
				      const struct frame *frame, struct process *process,
				      __u64 handle, struct entry *entry)
{
	struct ledger_key key = {
		.process = thread->process,
		.address = frame->args[1],
		.space = SPACE_MAPPING,
	};
	struct entry *mapping = bpf_map_lookup_elem(&ledger, &key);
	if (!mapping)
		return;
	__u64 id = mapping->physical;

	physical_ref(id, thread);
	key.address = handle;
	key.space = SPACE_HANDLE;
	struct entry *known = bpf_map_lookup_elem(&ledger, &key);
	if (known && known->physical == id) {
		__sync_fetch_and_add(&known->references, 1);
		return;
	}
	entry->physical = id;
	entry->references = 1;
	entry->memory = MEMORY_NONE;
	entry->bytes = 0;
	ledger_put(&key, entry, process);
}

static __always_inline void op_release_failed(const struct thread *thread,
					      const struct frame *frame)
{
	struct ledger_key key = {
		.process = thread->process,
		.address = frame->args[0],
		.space = SPACE_HANDLE,
	};
	struct entry *handle = bpf_map_lookup_elem(&ledger, &key);
	if (handle)
		__sync_fetch_and_add(&handle->references, 1);
	else
		bpf_map_update_elem(&ledger, &key, &frame->taken, BPF_NOEXIST);
}

static __always_inline void op_map(const struct thread *thread, const struct frame *frame,
				   struct process *process, struct entry *entry,
				   struct outcome *outcome)
{
	struct ledger_key key = {
		.process = thread->process,
		.address = frame->args[3],
		.space = SPACE_HANDLE,
	};
	struct entry *handle = bpf_map_lookup_elem(&ledger, &key);

	entry->memory = MEMORY_NONE;
	if (handle) {
		struct ledger_key physical_key = key;

		entry->physical = handle->physical;
		physical_key.address = entry->physical;
		physical_key.space = SPACE_PHYSICAL;
		struct entry *physical = bpf_map_lookup_elem(&ledger, &physical_key);
		if (physical) {
			__sync_fetch_and_add(&physical->references, 1);
			if (physical->memory == MEMORY_IMPORTED)
				entry->memory = MEMORY_IMPORTED;
		}
	} else {
		outcome->flags |= RECORD_UNKNOWN;
	}
	key.address = frame->args[0];
	key.space = SPACE_MAPPING;
	if (entry->memory == MEMORY_IMPORTED)
		ledger_book(&key, entry, process, outcome);
	else
		ledger_put(&key, entry, process);
}

#define MAPPINGS_MAX 512

/*
 * Takes out the mapping at an address, unless it is younger than `before`: put there
 * since. What it frees is added to the thread's `ended`, which belongs to context_end()
 * else. A function of its own, so that the verifier looks at it once.
 *
 * Returns: its size, 0 if there was none.
 */
__attribute__((noinline)) __u64 unmap_one(__u64 address, __u64 before)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);
	if (!thread)
		return 0;
	struct ledger_key key = {
		.process = thread->process,
		.address = address,
		.space = SPACE_MAPPING,
	};
	struct process *process = bpf_map_lookup_elem(&processes, &key.process);
	struct entry *mapping = bpf_map_lookup_elem(&ledger, &key);
	struct entry taken;
	if (!process || !mapping || mapping->time > before ||
	    !ledger_take(&key, &taken, process))
		return 0;

	struct outcome outcome = { .memory = MEMORY_NONE };
	if (taken.memory == MEMORY_IMPORTED)
		outcome_freed(&outcome, &taken, process);
	physical_unref(taken.physical, thread, process, &outcome);
	thread->ended += outcome.bytes;
	return taken.bytes;
}

/* An unmap may span several mappings. Those behind the first are looked for when it has
 * worked. */
static __always_inline void op_unmap(struct thread *thread, const struct frame *frame,
				     struct process *process, struct outcome *outcome)
{
	__u64 address = frame->args[0], end = address + frame->args[1];
	__u64 size = frame->taken.bytes;

	if (frame->taken.memory == MEMORY_IMPORTED)
		outcome_freed(outcome, &frame->taken, process);
	physical_unref(frame->taken.physical, thread, process, outcome);
	thread->ended = 0;
	for (int i = 0; i < MAPPINGS_MAX && size; i++) {
		address += size;
		if (address >= end)
			break;
		size = unmap_one(address, frame->time);
	}
	if (!thread->ended)
		return;
	outcome->bytes += thread->ended;
	outcome->flags |= RECORD_FREED;
	if (outcome->memory >= N_MEMORIES)
		outcome->memory = MEMORY_VMM;
	outcome->held = process->held[outcome->memory];
}

/* --- contexts --- */

/* Most processes have one context: memory of threads whose current context was never
 * seen to be set is of that one. */
static __always_inline void context_note(struct process *process, __u64 context)
{
	if (!context || process->context == context)
		return;
	process->contexts = process->context ? 2 : 1;
	process->context = context;
}

struct context_end {
	__u64 process;
	__u64 context;
	__u64 only; /* nothing else can be where no context is known */
	struct thread *thread;
};

static long context_end_one(void *map, const void *key_, void *value, void *data)
{
	const struct ledger_key *key = key_;
	const struct entry *entry = value;
	struct context_end *end = data;

	if (key->process != end->process || key->space == SPACE_PRIMARY ||
	    !memory_has_context(entry->memory))
		return 0;
	if (entry->context != end->context && (entry->context || !end->only))
		return 0;

	struct ledger_key taken_key = *key;
	struct entry taken;
	struct process *process = bpf_map_lookup_elem(&processes, &end->process);
	if (process && ledger_take(&taken_key, &taken, process)) {
		end->thread->ended += taken.bytes;
		end->thread->n_ended++;
	}
	return 0;
}

/* All memory of a context is free. */
static __always_inline void context_end(struct thread *thread,
					const struct process *process, __u64 context,
					struct outcome *outcome)
{
	struct context_end end = {
		.process = thread->process,
		.context = context,
		.only = process->contexts == 1 && process->context == context,
		.thread = thread,
	};
	if (!context)
		return;
	thread->ended = 0;
	thread->n_ended = 0;
	bpf_for_each_map_elem(&ledger, context_end_one, &end, 0);
	outcome->bytes = thread->ended;
	outcome->n_freed = thread->n_ended;
	if (outcome->n_freed)
		outcome->flags |= RECORD_FREED;
	outcome->memory = MEMORY_NONE;
}

static __always_inline void op_primary_retain(const struct thread *thread,
					      const struct frame *frame,
					      struct process *process, __u64 context,
					      struct entry *entry)
{
	struct ledger_key key = {
		.process = thread->process,
		.address = (__u32)frame->args[1],
		.space = SPACE_PRIMARY,
	};
	struct entry *primary = bpf_map_lookup_elem(&ledger, &key);

	if (primary && primary->context == context) {
		__sync_fetch_and_add(&primary->references, 1);
		return;
	}
	entry->context = context;
	entry->references = 1;
	entry->memory = MEMORY_NONE;
	ledger_put(&key, entry, process);
}

/* Returns: the context that this call ended, or 0. */
static __always_inline __u64 op_primary_end(const volatile struct call_info *info,
					    const struct thread *thread,
					    const struct frame *frame)
{
	struct ledger_key key = {
		.process = thread->process,
		.address = (__u32)frame->args[0],
		.space = SPACE_PRIMARY,
	};
	struct entry *primary = bpf_map_lookup_elem(&ledger, &key);

	if (!primary)
		return 0;
	__u64 context = primary->context;
	if (info->op == OP_PRIMARY_RESET)
		return context;
	/* one that was retained before the tool looked may live on */
	if (__sync_fetch_and_add(&primary->references, -1) != 1)
		return 0;
	bpf_map_delete_elem(&ledger, &key);
	return context;
}

/* --- */

static __always_inline void op_failed(const volatile struct call_info *info,
				      const struct thread *thread,
				      const struct frame *frame, struct process *process)
{
	struct ledger_key key = {
		.process = thread->process,
		.address = frame->args[0],
		.space = info->space,
	};
	if (!frame->has_taken)
		return;
	if (info->op == OP_RELEASE)
		op_release_failed(thread, frame);
	else
		ledger_restore(&key, &frame->taken, process);
}

static __always_inline void alloc_done(const volatile struct call_info *info,
				       const struct thread *thread,
				       const struct frame *frame, struct process *process,
				       __u64 out, struct entry *entry,
				       struct outcome *outcome)
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

static __always_inline void vmm_done(const volatile struct call_info *info,
				     struct thread *thread, const struct frame *frame,
				     struct process *process, __u64 out,
				     struct entry *entry, struct outcome *outcome)
{
	switch (info->op) {
	case OP_CREATE:
	case OP_IMPORT:
		op_create(info, thread, process, out, entry, outcome);
		return;
	case OP_RETAIN:
		op_retain(thread, frame, process, out, entry);
		return;
	case OP_MAP:
		op_map(thread, frame, process, entry, outcome);
		return;
	}
	if (!frame->has_taken)
		outcome->flags |= RECORD_UNKNOWN;
	else if (info->op == OP_RELEASE)
		physical_unref(frame->taken.physical, thread, process, outcome);
	else
		op_unmap(thread, frame, process, outcome);
}

static __always_inline void context_done(const volatile struct call_info *info,
					 struct thread *thread, const struct frame *frame,
					 struct process *process, __u64 out,
					 struct entry *entry, struct outcome *outcome)
{
	__u64 ended = 0;

	switch (info->op) {
	case OP_CONTEXT_CREATE:
		context_note(process, out);
		context_push(thread, out);
		return;
	case OP_CONTEXT_SET:
		context_note(process, frame->args[0]);
		context_set(thread, frame->args[0]);
		return;
	case OP_CONTEXT_PUSH:
		context_note(process, frame->args[0]);
		context_push(thread, frame->args[0]);
		return;
	case OP_CONTEXT_POP:
		context_pop(thread);
		return;
	case OP_CONTEXT_DESTROY:
		ended = frame->args[0];
		if (context_current(thread) == ended)
			context_pop(thread);
		break;
	case OP_PRIMARY_RETAIN:
		context_note(process, out);
		op_primary_retain(thread, frame, process, out, entry);
		return;
	case OP_PRIMARY_RELEASE:
	case OP_PRIMARY_RESET:
		ended = op_primary_end(info, thread, frame);
		break;
	}
	if (ended)
		context_end(thread, process, ended, outcome);
}

/* SPDX-License-Identifier: MIT */
/*
 * Virtual memory management in the ledger.
 *
 * Memory of cuMemCreate() lives as long as the last handle or mapping. Handles and
 * mappings therefore refer to a numbered SPACE_PHYSICAL entry, where they are counted and
 * the bytes are kept. The size of imported memory is not known before a mapping: there
 * the mappings have the bytes.
 */
#pragma once

#include "ledger.bpf.h"

/* A handle or mapping less; the last frees the memory. */
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

/* A retained handle stands for several. */
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

/* New memory, and the first handle. */
static __always_inline void op_create(const volatile struct call_info *info,
				      const struct thread *thread,
				      struct process *process, __u64 handle,
				      struct entry *entry, struct outcome *outcome)
{
	struct ledger_key key = {
		.process = thread->process,
		.address = entry->time ^ (__u64)entry->tid << 40, /* a unique number */
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

/* Another owner of the memory behind a mapping: a new handle, or the same again. */
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

#define MAPPINGS_MAX 512 /* of an unmap, at most */

/* Adds the bytes freed by the end of a mapping to the thread's `ended` (otherwise used by
 * context_end()), and imported bytes to `ended_imported`. */
static __always_inline void mapping_freed(const struct entry *mapping,
					  struct thread *thread, struct process *process)
{
	struct outcome outcome = { .memory = MEMORY_NONE };

	if (mapping->memory == MEMORY_IMPORTED)
		thread->ended_imported += mapping->bytes;
	physical_unref(mapping->physical, thread, process, &outcome);
	thread->ended += outcome.bytes;
}

/*
 * Takes out the mapping at an address, unless the mapping is younger than `before`. Not
 * inlined, so that the verifier looks at the function once.
 *
 * Returns: the size; 0: no mapping.
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
	struct process *process = process_of(thread);
	struct entry *mapping = bpf_map_lookup_elem(&ledger, &key);
	struct entry taken;
	if (!process || !mapping || mapping->time > before ||
	    !ledger_take(&key, &taken, process))
		return 0;
	mapping_freed(&taken, thread, process);
	return taken.bytes;
}

/* The mappings from an address up to another, in their order. */
__attribute__((noinline)) __u64 unmap_rest(__u64 address, __u64 end, __u64 before)
{
	__u64 size = 1;

	for (int i = 0; i < MAPPINGS_MAX && size && address < end; i++) {
		size = unmap_one(address, before);
		address += size;
	}
	return address;
}

/* An unmap may span several mappings, of own and of imported memory. The rest is looked
 * up when the call has succeeded. */
static __always_inline void op_unmap(struct thread *thread, const struct frame *frame,
				     struct process *process, struct outcome *outcome)
{
	thread->ended = 0;
	thread->ended_imported = 0;
	mapping_freed(&frame->taken, thread, process);
	if (frame->taken.bytes && frame->taken.bytes < frame->args[1])
		unmap_rest(frame->args[0] + frame->taken.bytes,
			   frame->args[0] + frame->args[1], frame->time);
	if (!thread->ended && !thread->ended_imported)
		return;
	outcome->flags |= RECORD_FREED;
	if (thread->ended) {
		outcome->memory = MEMORY_VMM;
		outcome->bytes = thread->ended;
		outcome->imported = thread->ended_imported;
		outcome->held = process->held[MEMORY_VMM];
	} else {
		outcome->memory = MEMORY_IMPORTED;
		outcome->bytes = thread->ended_imported;
		outcome->held = process->held[MEMORY_IMPORTED];
	}
}

static __always_inline void op_begin_unmap(const struct thread *thread,
					   struct frame *frame, struct process *process)
{
	struct ledger_key key = {
		.process = thread->process,
		.address = frame->args[0],
		.space = SPACE_MAPPING,
	};
	frame->has_taken = ledger_take(&key, &frame->taken, process);
}

static __always_inline void op_failed(enum kind kind,
				      const volatile struct call_info *info,
				      struct thread *thread, const struct frame *frame,
				      struct process *process)
{
	struct ledger_key key = {
		.process = thread->process,
		.address = frame->args[0],
		.space = info->space,
	};
	if (!frame->has_taken)
		return;
	if (kind == KIND_VMM && info->op == OP_RELEASE)
		op_release_failed(thread, frame);
	else if (kind == KIND_FREE)
		alloc_restore(&key, &frame->taken, thread, process);
	else
		ledger_restore(&key, &frame->taken, process);
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

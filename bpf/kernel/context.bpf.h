/* SPDX-License-Identifier: MIT */
/*
 * The end of a context frees device, managed and host memory made in the context. Pools
 * and memory of virtual memory management outlive contexts.
 */
#pragma once

#include "ledger.bpf.h"

/* Most processes have a single context: memory belongs to this context if the thread was
 * never seen to set a current context. */
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

/* Memory imported by virtual memory management stays. */
static __always_inline bool space_has_context(__u32 space)
{
	return space == SPACE_POINTER || space == SPACE_PINNED ||
	       space == SPACE_REGISTERED;
}

/* Whether an entry goes with the context. */
static __always_inline bool context_ends(const struct context_end *end,
					 const struct ledger_key *key,
					 const struct entry *entry)
{
	if (key->process != end->process || !space_has_context(key->space) ||
	    !memory_has_context(entry->memory))
		return false;
	return entry->context == end->context || (!entry->context && end->only);
}

static long context_end_bucket(void *map, const void *key, void *value, void *data)
{
	struct context_end *end = data;
	struct bucket *bucket = value;

	for (__u32 way = 0; way < WAYS; way++) {
		__u64 tag = bucket->tags[way];
		struct slot *slot = &bucket->slots[way];

		if (tag < TAG_ENTRY || !context_ends(end, &slot->key, &slot->entry))
			continue;
		struct process *process =
			bpf_map_lookup_elem(&processes, &end->thread->place);
		if (!process || !bucket_own(bucket, way, tag))
			continue;
		end->thread->ended += slot->entry.bytes;
		end->thread->n_ended += slot->entry.memory < N_OWN_MEMORIES;
		totals_take(process, slot->entry.memory, slot->entry.bytes, 1);
		bucket_disown(bucket, way, TAG_FREE);
	}
	return 0;
}

static long context_end_one(void *map, const void *key_, void *value, void *data)
{
	const struct ledger_key *key = key_;
	struct context_end *end = data;

	if (!context_ends(end, key, value))
		return 0;
	struct ledger_key taken_key = *key;
	struct entry taken;
	struct process *process = bpf_map_lookup_elem(&processes, &end->thread->place);
	if (process && ledger_take(&taken_key, &taken, process)) {
		end->thread->ended += taken.bytes;
		end->thread->n_ended += taken.memory < N_OWN_MEMORIES;
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
	bpf_for_each_map_elem(&buckets, context_end_bucket, &end, 0);
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

/* Returns: the context ended by this call, or 0. */
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
	/* a context retained before the tool started may live on */
	if (__sync_fetch_and_add(&primary->references, -1) != 1)
		return 0;
	bpf_map_delete_elem(&ledger, &key);
	return context;
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

/* SPDX-License-Identifier: MIT */
/*
 * The BPF programs of gpumem-trace: what runs when a process calls the driver, when the
 * call returns, and when a process forks, runs another program or ends.
 *
 * A probe's cookie is the number of its call. Each kind of call has programs of its own
 * (enum kind): as a session, one program for entry and return, and as a pair for kernels
 * without sessions.
 */
#include <linux/bpf.h>
#include <linux/ptrace.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include <stdbool.h>
#include <stddef.h>

/* errno.h's, which has no place in a BPF program */
#define E2BIG  7
#define EEXIST 17

#ifndef PT_REGS_PARM6 /* libbpf before 1.2 */
#define PT_REGS_PARM6(ctx) ((ctx)->r9)
#endif

#include "ledger.bpf.h"
#include "maps.bpf.h"
#include "thread.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

extern bool bpf_session_is_return(void) __ksym __weak;
extern __u64 *bpf_session_cookie(void) __ksym __weak;

/* --- parameters --- */

#define CONFIG_NUMBERS 7  /* of a CUlaunchConfig: grid, block, shared memory ... */
#define CONFIG_STREAM  32 /* ... and where its stream stands */

static __always_inline void read_config(struct frame *frame)
{
	__u64 config = frame->args[0], function = frame->args[1], stream = 0;
	__u32 numbers[CONFIG_NUMBERS] = { 0 };

	bpf_probe_read_user(numbers, sizeof numbers, (void *)config);
	bpf_probe_read_user(&stream, sizeof stream, (void *)(config + CONFIG_STREAM));
	frame->args[0] = function;
	for (int i = 0; i < CONFIG_NUMBERS; i++)
		frame->args[i + 1] = numbers[i];
	frame->args[8] = stream;
}

static __always_inline void read_access(struct frame *frame)
{
	__u32 desc[3] = { 0 };

	bpf_probe_read_user(desc, sizeof desc, (void *)frame->args[2]);
	frame->args[2] = desc[0] | (__u64)desc[1] << 32;
	frame->args[4] = desc[2];
}

static __always_inline __u64 read_extent(const volatile struct call_info *info,
					 __u64 copy)
{
	__u64 extents[3] = { 0, 0, 1 };

	if (info->n_extents == 3)
		bpf_probe_read_user(extents, sizeof extents,
				    (void *)(copy + info->extents));
	else
		bpf_probe_read_user(extents, 2 * sizeof *extents,
				    (void *)(copy + info->extents));
	return extents[0] * extents[1] * extents[2];
}

static __always_inline void
read_args(struct pt_regs *ctx, const volatile struct call_info *info, struct frame *frame)
{
	frame->args[0] = PT_REGS_PARM1(ctx);
	frame->args[1] = PT_REGS_PARM2(ctx);
	frame->args[2] = PT_REGS_PARM3(ctx);
	frame->args[3] = PT_REGS_PARM4(ctx);
	frame->args[4] = PT_REGS_PARM5(ctx);
	frame->args[5] = PT_REGS_PARM6(ctx);
	if (info->op == OP_LAUNCH_CONFIG)
		read_config(frame);
	else if (info->op == OP_SET_ACCESS)
		read_access(frame);
	else if (info->n_args > 6 &&
		 want_events) /* on the stack, behind the return address */
		bpf_probe_read_user(&frame->args[6], 3 * sizeof frame->args[0],
				    (void *)(PT_REGS_SP(ctx) + 8));
}

/* The bytes that a call is about, as far as its parameters say. */
static __always_inline __u64 call_size(const volatile struct call_info *info,
				       const struct frame *frame)
{
	if (info->op == OP_COPY_STRUCT)
		return read_extent(info, frame->args[0]);
	if (info->size >= ARGS_MAX)
		return 0;
	__u64 size = frame_arg(frame, info->size);
	if (info->size_is_int)
		size = (__u32)size;
	size <<= info->shift & 7;
	if (info->times < ARGS_MAX)
		size *= frame_arg(frame, info->times);
	return size;
}

static __always_inline __u64 read_out(const volatile struct call_info *info,
				      const struct frame *frame, __u8 i)
{
	__u8 arg = info->out[i];
	__u64 value = 0;

	if (arg >= ARGS_MAX)
		return 0;
	if (i == 0 && info->out_size == 4)
		bpf_probe_read_user(&value, 4, (void *)frame_arg(frame, arg));
	else
		bpf_probe_read_user(&value, 8, (void *)frame_arg(frame, arg));
	return value;
}

/* --- totals --- */

static __always_inline __u32 log2_slot(__u64 value)
{
	__u32 slot = 0;

	if (value >> 32) {
		value >>= 32;
		slot += 32;
	}
	if (value >> 16) {
		value >>= 16;
		slot += 16;
	}
	if (value >> 8) {
		value >>= 8;
		slot += 8;
	}
	if (value >> 4) {
		value >>= 4;
		slot += 4;
	}
	if (value >> 2) {
		value >>= 2;
		slot += 2;
	}
	return slot + (value >> 1);
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
	__u32 slot = log2_slot(duration);
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

/* --- records --- */

static __always_inline void record_fill(struct record *record,
					const struct thread *thread,
					const struct process *process)
{
	__u64 pids = pids_now();

	record->pid = pids >> 32;
	record->tid = (__u32)pids;
	record->uid = (__u32)bpf_get_current_uid_gid();
	record->process = thread->process;
	bpf_get_current_comm(record->comm, COMM_SIZE);
}

static __always_inline void record_fill_call(struct record *record, __u32 call,
					     const struct frame *frame,
					     const struct outcome *outcome)
{
	record->type = RECORD_CALL;
	record->unused = 0;
	record->unused2 = 0;
	record->call = call;
	record->flags = outcome->flags;
	record->memory = outcome->memory;
	record->n_freed = outcome->n_freed;
	record->bytes = outcome->bytes;
	record->held = outcome->held;
	record->time = frame->time;
	__builtin_memcpy(record->args, frame->args, sizeof record->args);
}

struct returned {
	__u64 duration;
	__u64 out[2];
	__s32 result;
	__s32 stack;
};

static __always_inline void record_fill_returned(struct record *record,
						 const struct returned *returned)
{
	record->duration = returned->duration;
	record->result = returned->result;
	record->stack = returned->stack;
	record->out[0] = returned->out[0];
	record->out[1] = returned->out[1];
}

static __always_inline void emit(__u32 call, const volatile struct call_info *info,
				 const struct thread *thread,
				 const struct process *process, const struct frame *frame,
				 const struct outcome *outcome,
				 const struct returned *returned)
{
	__u64 flags = want_stacks ? 0 : BPF_RB_NO_WAKEUP;

	if (info->text < ARGS_MAX) {
		struct record_text *record =
			bpf_ringbuf_reserve(&ring, sizeof *record, 0);
		if (!record) {
			count_lost(LOST_EVENTS);
			return;
		}
		record_fill(&record->record, thread, process);
		record_fill_call(&record->record, call, frame, outcome);
		record_fill_returned(&record->record, returned);
		record->record.type = RECORD_TEXT;
		if (bpf_probe_read_user_str(record->text, TEXT_SIZE,
					    (void *)frame_arg(frame, info->text)) < 0)
			record->text[0] = '\0';
		bpf_ringbuf_submit(record, flags);
		return;
	}

	struct record *record = bpf_ringbuf_reserve(&ring, sizeof *record, 0);
	if (!record) {
		count_lost(LOST_EVENTS);
		return;
	}
	record_fill(record, thread, process);
	record_fill_call(record, call, frame, outcome);
	record_fill_returned(record, returned);
	bpf_ringbuf_submit(record, flags);
}

/* What a process holds after the end of a context, which frees several kinds at once. */
static __always_inline void emit_held(const struct thread *thread,
				      const struct process *process)
{
	struct record_exit *record = bpf_ringbuf_reserve(&ring, sizeof *record, 0);
	if (!record) {
		count_lost(LOST_EVENTS);
		return;
	}
	__builtin_memset(record, 0, sizeof *record);
	record_fill(&record->record, thread, process);
	record->record.type = RECORD_HELD;
	record->record.stack = -1;
	record->record.time = bpf_ktime_get_ns();
	for (int i = 0; i < N_MEMORIES; i++) {
		record->held[i] = process->held[i];
		record->n_held[i] = process->n_held[i];
	}
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* --- calls --- */

static __always_inline void take(enum kind kind, const volatile struct call_info *info,
				 const struct thread *thread, struct frame *frame)
{
	struct process *process = bpf_map_lookup_elem(&processes, &thread->process);
	if (!process)
		return;
	if (kind == KIND_FREE || info->op == OP_UNMAP)
		op_begin_free(info, thread, frame, process);
	else if (info->op == OP_RELEASE)
		op_begin_release(thread, frame);
}

/* A call begins. Returns: 1 if its return is of no interest. */
static __always_inline int call_begin(struct pt_regs *ctx, enum kind kind)
{
	__u64 call = bpf_get_attach_cookie(ctx);
	if (call >= CALLS_MAX)
		return 1;
	const volatile struct call_info *info = &calls[call];

	struct thread *thread = thread_enter();
	if (!thread)
		return 1;
	struct frame *frame = frame_push(thread, PT_REGS_SP(ctx));
	if (!frame)
		return 1;
	frame->call = call;
	read_args(ctx, info, frame);
	if (kind == KIND_FREE || kind == KIND_VMM)
		take(kind, info, thread, frame);
	frame->time = bpf_ktime_get_ns();
	return 0;
}

/* What a call that worked did to the ledger. */
static __always_inline void done(enum kind kind, const volatile struct call_info *info,
				 struct thread *thread, const struct frame *frame,
				 struct process *process, __u64 out, struct entry *entry,
				 struct outcome *outcome)
{
	switch (kind) {
	case KIND_ALLOC:
		alloc_done(info, thread, frame, process, out, entry, outcome);
		break;
	case KIND_FREE:
		free_done(frame, process, outcome);
		break;
	case KIND_VMM:
		vmm_done(info, thread, frame, process, out, entry, outcome);
		break;
	case KIND_CONTEXT:
		context_done(info, thread, frame, process, out, entry, outcome);
		break;
	default:
		break;
	}
}

static __always_inline int call_end(struct pt_regs *ctx, enum kind kind)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 call = bpf_get_attach_cookie(ctx);
	if (call >= CALLS_MAX)
		return 0;
	const volatile struct call_info *info = &calls[call];

	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);
	if (!thread)
		return 0;
	struct frame *frame = frame_pop(thread, call);
	if (!frame)
		return 0;
	/* a process is known by its first call that matters to the ledger, or that gives
	 * names which its end makes void */
	struct process *process = NULL;
	if (kind != KIND_PLAIN || info->text < ARGS_MAX) {
		process = process_get(thread->process, task);
		if (!process)
			return 0;
	}

	struct returned returned = {
		.duration = now - frame->time,
		.result = (__s32)PT_REGS_RC(ctx),
		.stack = -1,
	};
	if (want_stacks) {
		returned.stack = bpf_get_stackid(ctx, &stacks, BPF_F_USER_STACK);
		if (returned.stack < 0)
			count_lost(LOST_STACKS);
	}

	struct outcome outcome = {
		.bytes = 0,
		.memory = MEMORY_NONE,
	};
	__u64 size = call_size(info, frame);
	if (returned.result) {
		if (kind == KIND_FREE || kind == KIND_VMM)
			op_failed(info, thread, frame, process);
	} else {
		if (kind != KIND_PLAIN || want_events) {
			returned.out[0] = read_out(info, frame, 0);
			returned.out[1] = read_out(info, frame, 1);
		}
		if (kind == KIND_ALLOC && info->pitched && info->times < ARGS_MAX)
			size = returned.out[1] * frame_arg(frame, info->times);

		struct entry entry = {
			.bytes = size,
			.time = now,
			.stack = returned.stack,
			.tid = (__u32)pids_now(),
			.call = call,
		};
		done(kind, info, thread, frame, process, returned.out[0], &entry,
		     &outcome);
		if (kind == KIND_CONTEXT && want_events && outcome.n_freed)
			emit_held(thread, process);
		if (process && outcome.flags & RECORD_UNKNOWN && !thread->depth)
			__sync_fetch_and_add(&process->unknown, 1);
	}
	if (!outcome.flags)
		outcome.bytes = size;
	if (!emit_wanted(info, &outcome) ||
	    !result_wanted(returned.result, outcome.bytes))
		return 0;
	count_call(call, returned.result, returned.duration, outcome.bytes);
	if (want_events)
		emit(call, info, thread, process, frame, &outcome, &returned);
	return 0;
}

/* --- calls that are only counted --- */

static __always_inline int count_begin(struct pt_regs *ctx)
{
	__u64 call = bpf_get_attach_cookie(ctx);
	if (call >= CALLS_MAX)
		return 1;
	const volatile struct call_info *info = &calls[call];

	struct thread *thread = thread_enter();
	if (!thread)
		return 1;
	struct frame *frame = frame_push(thread, PT_REGS_SP(ctx));
	if (!frame)
		return 1;
	frame->call = call;
	if (info->size < ARGS_MAX || info->op == OP_COPY_STRUCT) {
		frame->args[0] = PT_REGS_PARM1(ctx);
		frame->args[1] = PT_REGS_PARM2(ctx);
		frame->args[2] = PT_REGS_PARM3(ctx);
		frame->args[3] = PT_REGS_PARM4(ctx);
		frame->args[4] = PT_REGS_PARM5(ctx);
		frame->args[0] = call_size(info, frame);
	} else {
		frame->args[0] = 0;
	}
	frame->time = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int count_end(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 call = bpf_get_attach_cookie(ctx);
	if (call >= CALLS_MAX)
		return 0;

	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);
	if (!thread)
		return 0;
	struct frame *frame = frame_pop(thread, call);
	if (!frame)
		return 0;
	__s32 result = (__s32)PT_REGS_RC(ctx);
	if (result_wanted(result, frame->args[0]))
		count_call(call, result, now - frame->time, frame->args[0]);
	return 0;
}

/* As a session, a call without a size keeps its time in the session's own cookie, and
 * looks nobody up where everybody is wanted: launches are many. */
static __always_inline bool count_quickly(struct pt_regs *ctx, bool is_return)
{
	__u64 call = bpf_get_attach_cookie(ctx);
	if (call >= CALLS_MAX || filter_pid || filter_by_uid || filter_followed)
		return false;
	if (calls[call].size < ARGS_MAX || calls[call].op == OP_COPY_STRUCT)
		return false;
	__u64 *start = bpf_session_cookie();

	if (!is_return) {
		*start = bpf_ktime_get_ns();
		return true;
	}
	__s32 result = (__s32)PT_REGS_RC(ctx);
	__u64 now = bpf_ktime_get_ns();

	if (result_wanted(result, 0))
		count_call(call, result, now - *start, 0);
	return true;
}

static __always_inline int count_both(struct pt_regs *ctx)
{
	bool is_return = bpf_session_is_return();

	if (count_quickly(ctx, is_return))
		return 0;
	return is_return ? count_end(ctx) : count_begin(ctx);
}

/* --- the programs --- */

#define PROGRAMS(name, begin, end, both)        \
	SEC("uprobe")                           \
	int name##_session(struct pt_regs *ctx) \
	{                                       \
		return both;                    \
	}                                       \
                                                \
	SEC("uprobe")                           \
	int name##_entry(struct pt_regs *ctx)   \
	{                                       \
		begin;                          \
		return 0;                       \
	}                                       \
                                                \
	SEC("uprobe")                           \
	int name##_return(struct pt_regs *ctx)  \
	{                                       \
		return end;                     \
	}

#define CALL_PROGRAMS(name, kind)                                  \
	PROGRAMS(name, call_begin(ctx, kind), call_end(ctx, kind), \
		 bpf_session_is_return() ? call_end(ctx, kind) : call_begin(ctx, kind))

CALL_PROGRAMS(plain, KIND_PLAIN)
CALL_PROGRAMS(alloc, KIND_ALLOC)
CALL_PROGRAMS(free, KIND_FREE)
CALL_PROGRAMS(vmm, KIND_VMM)
CALL_PROGRAMS(context, KIND_CONTEXT)
PROGRAMS(count, count_begin(ctx), count_end(ctx), count_both(ctx))

/* --- processes --- */

/* All that a process held is free. */
static __always_inline void process_freed(__u64 id, struct process *process, __u8 call)
{
	struct record_exit *record = bpf_ringbuf_reserve(&ring, sizeof *record, 0);

	if (record) {
		__builtin_memset(record, 0, sizeof *record);
		record->record.type = RECORD_EXIT;
		record->record.flags = RECORD_FREED;
		record->record.call = call;
		record->record.stack = -1;
		record->record.pid = process->pid;
		record->record.tid = process->pid;
		record->record.uid = process->uid;
		record->record.process = id;
		record->record.time = bpf_ktime_get_ns();
		__builtin_memcpy(record->record.comm, process->comm, COMM_SIZE);
	} else {
		count_lost(LOST_EVENTS);
	}
	for (int i = 0; i < N_MEMORIES; i++) {
		if (record) {
			record->held[i] = process->held[i];
			record->n_held[i] = process->n_held[i];
			record->record.bytes += process->held[i];
			record->record.n_freed += process->n_held[i];
		}
		process->held[i] = 0;
		process->n_held[i] = 0;
	}
	process->gpu = 0;
	if (record)
		bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
}

SEC("raw_tp/sched_process_exit")
int process_exit(void *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	__u64 id = process_id(task);
	__u32 pid = task->tgid;

	if (task->signal->live.counter) /* threads of it live on */
		return 0;
	if (filter_followed)
		bpf_map_delete_elem(&followed, &pid);
	struct process *process = bpf_map_lookup_elem(&processes, &id);
	if (!process)
		return 0;
	/* its entries are left for the user program to look at, and to remove */
	process->ended = bpf_ktime_get_ns();
	process_freed(id, process, 0);
	return 0;
}

static long process_end_one(void *map, const void *key_, void *value, void *data)
{
	const struct ledger_key *key = key_;
	const __u64 *id = data;

	if (key->process == *id) {
		struct ledger_key taken = *key;

		bpf_map_delete_elem(&ledger, &taken);
	}
	return 0;
}

/* The process goes on as another program, without what it held. */
SEC("raw_tp/sched_process_exec")
int process_exec(void *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	__u64 id = process_id(task);
	struct process *process = bpf_map_lookup_elem(&processes, &id);
	if (!process)
		return 0;

	struct thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);
	if (thread) {
		thread->depth = 0;
		thread->n_contexts = 0;
	}
	bpf_for_each_map_elem(&ledger, process_end_one, &id, 0);
	process_freed(id, process, 1);
	bpf_get_current_comm(process->comm, COMM_SIZE);
	return 0;
}

/* Run by the command itself before it begins (command.c): only here is it known under the
 * machine's own number. */
SEC("raw_tp")
int follow_me(void *ctx)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;

	bpf_map_update_elem(&followed, &pid, &pid, BPF_ANY);
	return 0;
}

/* Children of what is followed are followed. */
SEC("raw_tp/sched_process_fork")
int process_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *parent = (struct task_struct *)ctx->args[0];
	struct task_struct *child = (struct task_struct *)ctx->args[1];
	__u32 from = BPF_CORE_READ(parent, tgid);
	__u32 to = BPF_CORE_READ(child, tgid);

	if (from != to && bpf_map_lookup_elem(&followed, &from))
		bpf_map_update_elem(&followed, &to, &to, BPF_ANY);
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * The BPF programs of gpumem-trace. They run when a process calls the driver, when the
 * call returns, and when a process forks, runs another program or ends.
 *
 * A probe's cookie is the number of its call. Each kind of call (enum kind) has a program
 * for entry and a program for return, as two links. A session, a single link for both,
 * must ask whether a call enters or returns, and has no room for arguments: only calls
 * that are merely counted are quicker as a session.
 *
 * The cost of helpers decides the shape of the rest: a call of a helper costs up to fifty
 * instructions where the kernel guards returns against speculation. So helpers are used
 * only where nothing else will do; arrays, atomic operations and fields of the task are
 * inlined by the kernel.
 */
#include <linux/bpf.h>
#include <linux/ptrace.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include <stdbool.h>
#include <stddef.h>

/* of errno.h, a header for user programs */
#define E2BIG  7
#define EEXIST 17

#ifndef PT_REGS_PARM6 /* libbpf before 1.2 */
#define PT_REGS_PARM6(ctx) ((ctx)->r9)
#endif

#include "args.bpf.h"
#include "context.bpf.h"
#include "count.bpf.h"
#include "emit.bpf.h"
#include "ledger.bpf.h"
#include "maps.bpf.h"
#include "process.bpf.h"
#include "thread.bpf.h"
#include "vmm.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

extern bool bpf_session_is_return(void) __ksym __weak;
extern __u64 *bpf_session_cookie(void) __ksym __weak;

/* --- calls --- */

static __always_inline void take(enum kind kind, const volatile struct call_info *info,
				 struct thread *thread, struct frame *frame)
{
	struct process *process = process_of(thread);
	if (!process)
		return;
	if (kind == KIND_FREE)
		op_begin_free(info, thread, frame, process);
	else if (info->op == OP_UNMAP)
		op_begin_unmap(thread, frame, process);
	else if (info->op == OP_RELEASE)
		op_begin_release(thread, frame);
}

static __always_inline int call_begin(struct pt_regs *ctx, enum kind kind)
{
	__u64 call = bpf_get_attach_cookie(ctx);
	if (call >= CALLS_MAX)
		return 0;
	const volatile struct call_info *info = &calls[call];

	struct thread *thread = thread_enter();
	if (!thread)
		return 0;
	struct frame *frame = frame_push(thread, PT_REGS_SP(ctx));
	if (!frame)
		return 0;
	frame->call = call;
	read_args(ctx, info, frame);
	if (kind == KIND_FREE || kind == KIND_VMM)
		take(kind, info, thread, frame);
	frame->time = bpf_ktime_get_ns();
	return 0;
}

/* The effect of a successful call on the ledger. */
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

/* The result of a call of any kind, with its duration, user and stack. */
static __always_inline void returned_init(struct returned *returned, struct pt_regs *ctx,
					  enum kind kind, const struct frame *frame,
					  struct task_struct *task, __u64 now)
{
	*returned = (struct returned){
		.duration = now - frame->time,
		.result = (__s32)PT_REGS_RC(ctx),
		.stack = -1,
	};
	if (want_events || kind == KIND_VMM || kind == KIND_ALLOC)
		returned->uid = task->cred->uid.val;
	if (want_stacks) {
		returned->stack = bpf_get_stackid(ctx, &stacks, BPF_F_USER_STACK);
		if (returned->stack < 0)
			count_lost(LOST_STACKS);
	}
}

/* The outputs of a successful call and its effect on the ledger. `entry` has its bytes,
 * time and call. */
static __always_inline void call_succeeded(enum kind kind,
					   const volatile struct call_info *info,
					   struct thread *thread, struct frame *frame,
					   struct process *process,
					   struct task_struct *task, struct entry *entry)
{
	struct returned *returned = &thread->returned;
	struct outcome *outcome = &thread->outcome;

	if (kind != KIND_PLAIN || want_events) {
		returned->out[0] = read_out(info, frame, 0);
		returned->out[1] = read_out(info, frame, 1);
	}
	if (kind == KIND_ALLOC && info->pitched && info->times < ARGS_MAX)
		entry->bytes = returned->out[1] * frame_arg(frame, info->times);
	entry->stack = returned->stack;
	entry->tid = (__u32)pids_now(task);
	done(kind, info, thread, frame, process, returned->out[0], entry, outcome);
	if (want_events && ((kind == KIND_CONTEXT && outcome->n_freed) ||
			    (kind == KIND_VMM && outcome->imported)))
		emit_held(thread, process, task, returned->uid);
	if (process && outcome->flags & RECORD_UNKNOWN && !thread->depth)
		__sync_fetch_and_add(&process->unknown, 1);
}

static __always_inline int call_end(struct pt_regs *ctx, enum kind kind)
{
	__u64 now = bpf_ktime_get_ns();
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);
	if (!thread)
		return 0;
	struct frame *frame = frame_pop(thread, PT_REGS_SP(ctx));
	if (!frame)
		return 0;
	__u32 call = frame->call;
	if (call >= CALLS_MAX)
		return 0;
	const volatile struct call_info *info = &calls[call];

	/* a process gets a record with the first call that matters to the ledger, or that
	 * gives names; the end of the process makes names void */
	struct process *process = NULL;
	if (kind != KIND_PLAIN || info->text < ARGS_MAX) {
		process = process_get(thread);
		if (!process)
			return 0;
	}

	struct returned *returned = &thread->returned;
	returned_init(returned, ctx, kind, frame, task, now);
	struct outcome *outcome = &thread->outcome;
	*outcome = (struct outcome){ .memory = MEMORY_NONE };
	struct entry entry = {
		.bytes = call_size(info, frame),
		.time = now,
		.call = call,
	};
	if (returned->result) {
		if (kind == KIND_FREE || kind == KIND_VMM)
			op_failed(kind, info, thread, frame, process);
	} else {
		call_succeeded(kind, info, thread, frame, process, task, &entry);
	}
	__asm__ volatile("" ::: "memory"); /* from here on all calls are alike */
	if (!outcome->flags)
		outcome->bytes = entry.bytes;
	__u64 size = outcome->bytes + outcome->imported;
	bool wanted = emit_wanted(info, outcome) && result_wanted(returned->result, size);
	if (wanted)
		count_call(call, returned->result, returned->duration, size);
	if (!wanted || !want_events) {
		if (!outcome_is_leasable(outcome))
			return 0;
		outcome->flags |= RECORD_SILENT;
	}
	emit(call, info, thread, task, frame, outcome, returned);
	return 0;
}

/* --- calls that are only counted --- */

static __always_inline int count_begin(struct pt_regs *ctx)
{
	__u64 call = bpf_get_attach_cookie(ctx);
	if (call >= CALLS_MAX)
		return 0;
	const volatile struct call_info *info = &calls[call];

	struct thread *thread = thread_enter();
	if (!thread)
		return 0;
	struct frame *frame = frame_push(thread, PT_REGS_SP(ctx));
	if (!frame)
		return 0;
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
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);
	if (!thread)
		return 0;
	struct frame *frame = frame_pop(thread, PT_REGS_SP(ctx));
	if (!frame)
		return 0;
	__s32 result = (__s32)PT_REGS_RC(ctx);
	if (result_wanted(result, frame->args[0]))
		count_call(frame->call, result, now - frame->time, frame->args[0]);
	return 0;
}

/* Launches are many: where everybody's are wanted, nobody is looked up, and the time of
 * entry is kept in the session. */
SEC("uprobe")
int tally_session(struct pt_regs *ctx)
{
	bool is_return = bpf_session_is_return();
	__u64 *start = bpf_session_cookie();

	if (!is_return) {
		*start = bpf_ktime_get_ns();
		return 0;
	}
	__u64 now = bpf_ktime_get_ns();
	__s32 result = (__s32)PT_REGS_RC(ctx);

	if (result_wanted(result, 0))
		count_call(bpf_get_attach_cookie(ctx), result, now - *start, 0);
	return 0;
}

/* --- the programs --- */

#define PROGRAMS(name, begin, end)             \
	SEC("uprobe")                          \
	int name##_entry(struct pt_regs *ctx)  \
	{                                      \
		return begin;                  \
	}                                      \
                                               \
	SEC("uprobe")                          \
	int name##_return(struct pt_regs *ctx) \
	{                                      \
		return end;                    \
	}

#define CALL_PROGRAMS(name, kind) \
	PROGRAMS(name, call_begin(ctx, kind), call_end(ctx, kind))

CALL_PROGRAMS(plain, KIND_PLAIN)
CALL_PROGRAMS(alloc, KIND_ALLOC)
CALL_PROGRAMS(free, KIND_FREE)
CALL_PROGRAMS(vmm, KIND_VMM)
CALL_PROGRAMS(context, KIND_CONTEXT)
PROGRAMS(count, count_begin(ctx), count_end(ctx))

/* SPDX-License-Identifier: MIT */
/*
 * Records for the user program.
 */
#pragma once

#include "ledger.bpf.h"
#include "maps.bpf.h"
#include "thread.bpf.h"

/* As two numbers: a helper would take longer than all the rest of a record. */
static __always_inline void comm_copy(char *comm, const struct task_struct *task)
{
	((__u64 *)comm)[0] = ((const __u64 *)task->comm)[0];
	((__u64 *)comm)[1] = ((const __u64 *)task->comm)[1];
}

static __always_inline void record_fill(struct record *record,
					const struct thread *thread,
					const struct task_struct *task, __u32 uid)
{
	__u64 pids = pids_now(task);

	record->pid = pids >> 32;
	record->tid = (__u32)pids;
	record->uid = uid;
	record->process = thread->process;
	comm_copy(record->comm, task);
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
	record->imported = outcome->imported;
	record->held = outcome->held;
	record->time = frame->time;
	__builtin_memcpy(record->args, frame->args, sizeof record->args);
}

static __always_inline void record_fill_returned(struct record *record,
						 const struct returned *returned)
{
	record->duration = returned->duration;
	record->result = returned->result;
	record->stack = returned->stack;
	record->out[0] = returned->out[0];
	record->out[1] = returned->out[1];
}

/* Memory that may be leased from a broker: the user program learns its name. */
static __always_inline bool outcome_is_leasable(const struct outcome *outcome)
{
	return outcome->flags & (RECORD_BOOKED | RECORD_FREED) &&
	       (outcome->memory == MEMORY_IMPORTED ||
		outcome->memory == MEMORY_REGISTERED || outcome->imported);
}

static __always_inline void emit(__u32 call, const volatile struct call_info *info,
				 const struct thread *thread,
				 const struct task_struct *task,
				 const struct frame *frame, const struct outcome *outcome,
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
		record_fill(&record->record, thread, task, returned->uid);
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
	record_fill(record, thread, task, returned->uid);
	record_fill_call(record, call, frame, outcome);
	record_fill_returned(record, returned);
	bpf_ringbuf_submit(record, flags);
}

/* Balances after a call that frees several kinds at once, as the end of a context. */
static __always_inline void emit_held(const struct thread *thread,
				      const struct process *process,
				      const struct task_struct *task, __u32 uid)
{
	struct record_exit *record = bpf_ringbuf_reserve(&ring, sizeof *record, 0);
	if (!record) {
		count_lost(LOST_EVENTS);
		return;
	}
	__builtin_memset(record, 0, sizeof *record);
	record_fill(&record->record, thread, task, uid);
	record->record.type = RECORD_HELD;
	record->record.stack = -1;
	record->record.time = bpf_ktime_get_ns();
	for (int i = 0; i < N_MEMORIES; i++) {
		record->held[i] = process->held[i];
		record->n_held[i] = process->n_held[i];
	}
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* SPDX-License-Identifier: MIT */
/*
 * The beginnings and ends of processes, from the scheduler's tracepoints.
 */
#pragma once

#include "emit.bpf.h"
#include "ledger.bpf.h"
#include "thread.bpf.h"

/* All memory of a process is free. */
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
		}
		if (record && i < N_OWN_MEMORIES) {
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

	if (BPF_CORE_READ(task, signal, live.counter)) /* other threads live on */
		return 0;
	if (filter_followed)
		bpf_map_delete_elem(&followed, &pid);
	__u32 place = process_find(id);
	struct process *process = bpf_map_lookup_elem(&processes, &place);
	if (!process || process->id != id)
		return 0;
	/*
	 * The user program reads and removes the entries of a process that has ended. Of
	 * two threads that end at the same time both may see no thread alive; the first
	 * one here tells the end.
	 */
	if (__sync_val_compare_and_swap(&process->ended, 0, bpf_ktime_get_ns()))
		return 0;
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

static long process_end_bucket(void *map, const void *key, void *value, void *data)
{
	struct bucket *bucket = value;
	const __u64 *id = data;

	for (__u32 way = 0; way < WAYS; way++) {
		__u64 tag = bucket->tags[way];

		if (tag >= TAG_ENTRY && bucket->slots[way].key.process == *id &&
		    bucket_own(bucket, way, tag))
			bucket_disown(bucket, way, TAG_FREE);
	}
	return 0;
}

/* The process goes on as another program, without memory. */
SEC("raw_tp/sched_process_exec")
int process_exec(void *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	__u64 id = process_id(task);
	__u32 place = process_find(id);
	struct process *process = bpf_map_lookup_elem(&processes, &place);
	if (!process || process->id != id)
		return 0;

	struct thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);
	if (thread) {
		thread->depth = 0;
		thread->n_contexts = 0;
	}
	bpf_for_each_map_elem(&buckets, process_end_bucket, &id, 0);
	bpf_for_each_map_elem(&ledger, process_end_one, &id, 0);
	process_freed(id, process, 1);
	bpf_get_current_comm(process->comm, COMM_SIZE);
	return 0;
}

/* Run by the command's process before the command begins (command.c): only the kernel
 * knows the machine's own pid. */
SEC("raw_tp")
int follow_me(void *ctx)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;

	bpf_map_update_elem(&followed, &pid, &pid, BPF_ANY);
	return 0;
}

/* Children of followed processes are followed. */
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

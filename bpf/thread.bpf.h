/* SPDX-License-Identifier: MIT */
/*
 * Who makes a call: the thread, its process, and whether anybody wants to know of it.
 */
#pragma once

#include "maps.bpf.h"

struct signal_struct {
	struct {
		int counter;
	} live;
} __attribute__((preserve_access_index));

struct task_struct {
	__u64 start_boottime;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	struct signal_struct *signal;
	char comm[COMM_SIZE];
} __attribute__((preserve_access_index));

/* A pid takes 22 bits at most; the time of start tells a pid's users apart. */
static __always_inline __u64 process_id(struct task_struct *task)
{
	return task->group_leader->start_boottime << 22 ^ (__u32)task->tgid;
}

/* The pid in the upper half, the tid in the lower, as the tool sees them. Processes of
 * another namespace have the machine's. */
static __always_inline __u64 pids_now(void)
{
	if (pidns_inode) {
		struct bpf_pidns_info info;

		if (!bpf_get_ns_current_pid_tgid(pidns_device, pidns_inode, &info,
						 sizeof info))
			return (__u64)info.tgid << 32 | info.pid;
	}
	return bpf_get_current_pid_tgid();
}

/* The record of a process, made at its first call. */
static __always_inline struct process *process_get(__u64 id, struct task_struct *task)
{
	struct process *process = bpf_map_lookup_elem(&processes, &id);
	if (process)
		return process;

	static const struct process empty;
	if (bpf_map_update_elem(&processes, &id, &empty, BPF_NOEXIST) == -E2BIG)
		count_lost(LOST_PROCESSES);
	process = bpf_map_lookup_elem(&processes, &id);
	if (!process)
		return NULL;
	process->start = task->group_leader->start_boottime;
	process->pid = pids_now() >> 32;
	process->uid = (__u32)bpf_get_current_uid_gid();
	bpf_probe_read_kernel_str(process->comm, COMM_SIZE, task->group_leader->comm);
	return process;
}

static __always_inline bool thread_wanted(const struct thread *thread)
{
	if (filter_pid && (__u32)(pids_now() >> 32) != filter_pid)
		return false;
	/* asked every time: a process may change its user */
	if (filter_by_uid && (__u32)bpf_get_current_uid_gid() != filter_uid)
		return false;
	return !filter_followed || thread->followed;
}

/* The current thread, or NULL if nobody wants its calls. */
static __always_inline struct thread *thread_enter(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&threads, task, NULL,
						     BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		count_lost(LOST_CALLS);
		return NULL;
	}
	if (!thread->process) {
		__u32 tgid = task->tgid;

		thread->process = process_id(task);
		thread->followed =
			filter_followed && bpf_map_lookup_elem(&followed, &tgid);
	}
	return thread_wanted(thread) ? thread : NULL;
}

/* A call begins at this stack pointer: calls that never returned lie below it. */
static __always_inline struct frame *frame_push(struct thread *thread, __u64 sp)
{
	for (int i = 0; i < FRAMES_MAX; i++) {
		__u32 depth = thread->depth;

		if (!depth || thread->frames[(depth - 1) & (FRAMES_MAX - 1)].sp > sp)
			break;
		thread->depth = depth - 1;
	}
	if (thread->depth >= FRAMES_MAX) {
		count_lost(LOST_CALLS);
		return NULL;
	}
	struct frame *frame = &thread->frames[thread->depth & (FRAMES_MAX - 1)];
	thread->depth++;
	frame->sp = sp;
	frame->has_taken = 0;
	return frame;
}

static __always_inline __u64 frame_arg(const struct frame *frame, __u8 i)
{
	return frame->args[i & (ARGS_SLOTS - 1)];
}

/* The frame of the call that returns now, or NULL. */
static __always_inline struct frame *frame_pop(struct thread *thread, __u32 call)
{
	if (!thread->depth)
		return NULL;
	struct frame *frame = &thread->frames[(thread->depth - 1) & (FRAMES_MAX - 1)];
	if (frame->call != call)
		return NULL;
	thread->depth--;
	return frame;
}

static __always_inline __u64 context_current(const struct thread *thread)
{
	if (!thread->n_contexts)
		return 0;
	return thread->contexts[(thread->n_contexts - 1) & (CONTEXTS_MAX - 1)];
}

static __always_inline void context_set(struct thread *thread, __u64 context)
{
	if (!thread->n_contexts)
		thread->n_contexts = 1;
	thread->contexts[(thread->n_contexts - 1) & (CONTEXTS_MAX - 1)] = context;
}

static __always_inline void context_push(struct thread *thread, __u64 context)
{
	thread->contexts[thread->n_contexts & (CONTEXTS_MAX - 1)] = context;
	thread->n_contexts++;
}

static __always_inline void context_pop(struct thread *thread)
{
	if (thread->n_contexts)
		thread->n_contexts--;
}

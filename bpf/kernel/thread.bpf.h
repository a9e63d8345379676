/* SPDX-License-Identifier: MIT */
/*
 * The thread that makes a call, the thread's process, and the filters.
 */
#pragma once

#include "maps.bpf.h"

struct signal_struct {
	struct {
		int counter;
	} live;
} __attribute__((preserve_access_index));

struct cred {
	struct {
		__u32 val;
	} uid;
} __attribute__((preserve_access_index));

struct task_struct {
	__u64 start_boottime;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	struct signal_struct *signal;
	const struct cred *cred;
	char comm[COMM_SIZE];
} __attribute__((preserve_access_index));

/* A pid takes 22 bits at most; the time of start tells a pid's users apart. Read by
 * BPF_CORE_READ, as a pointer that the verifier follows costs a search of the kernel's
 * whole BTF. */
static __always_inline __u64 process_id(struct task_struct *task)
{
	return BPF_CORE_READ(task, group_leader, start_boottime) << 22 ^
	       (__u32)task->tgid;
}

/* The pid in the upper half, the tid in the lower, as the tool sees them. Processes of
 * another namespace have the machine's. */
static __always_inline __u64 pids_now(const struct task_struct *task)
{
	if (pidns_inode) {
		struct bpf_pidns_info info;

		if (!bpf_get_ns_current_pid_tgid(pidns_device, pidns_inode, &info,
						 sizeof info))
			return (__u64)info.tgid << 32 | info.pid;
	}
	return (__u64)(__u32)task->tgid << 32 | (__u32)task->pid;
}

/* Where the Nth place of a process is. */
static __always_inline __u32 place_of(__u64 id, __u32 n)
{
	return ((__u32)(id * 0x9e3779b97f4a7c15 >> 32) + n) & (PROCESSES_MAX - 1);
}

#define NO_PLACE 0xffffffffu

/* The place of a process's record. Not inlined, so that the verifier looks at the
 * function once. */
__attribute__((noinline)) __u32 process_find(__u64 id)
{
	for (__u32 n = 0; n < PLACES; n++) {
		__u32 place = place_of(id, n);
		struct process *process = bpf_map_lookup_elem(&processes, &place);

		if (process && process->id == id)
			return place;
	}
	return NO_PLACE;
}

/* Makes the current process's record. Another thread of the process may do the same at
 * the same time: both try the same places in the same order. */
__attribute__((noinline)) __u32 process_make(__u64 id)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);

	for (__u32 n = 0; n < PLACES; n++) {
		__u32 place = place_of(id, n);
		struct process *process = bpf_map_lookup_elem(&processes, &place);

		if (!process)
			break;
		__u64 before = __sync_val_compare_and_swap(&process->id, 0, id);
		if (before == id)
			return place;
		if (before)
			continue;
		process->start = BPF_CORE_READ(leader, start_boottime);
		process->uid = (__u32)bpf_get_current_uid_gid();
		bpf_probe_read_kernel_str(process->comm, COMM_SIZE, leader->comm);
		/* last: a pid means that the rest is there */
		*(volatile __u32 *)&process->pid = pids_now(task) >> 32;
		return place;
	}
	count_lost(LOST_PROCESSES);
	return NO_PLACE;
}

/* The record of a thread's process, or NULL. */
static __always_inline struct process *process_of(struct thread *thread)
{
	__u64 id = thread->process;
	struct process *process = bpf_map_lookup_elem(&processes, &thread->place);
	if (process && process->id == id)
		return process;

	thread->place = process_find(id);
	process = bpf_map_lookup_elem(&processes, &thread->place);
	return process && process->id == id ? process : NULL;
}

/* The same, but made at the first call. */
static __always_inline struct process *process_get(struct thread *thread)
{
	__u64 id = thread->process;
	struct process *process = bpf_map_lookup_elem(&processes, &thread->place);
	if (process && process->id == id)
		return process;

	thread->place = process_find(id);
	if (thread->place == NO_PLACE)
		thread->place = process_make(id);
	process = bpf_map_lookup_elem(&processes, &thread->place);
	return process && process->id == id ? process : NULL;
}

/* Whether --pid names this process. Not inlined, so that the verifier looks at the
 * function once. */
__attribute__((noinline)) int pid_wanted(__u32 pid)
{
	for (__u32 i = 0; i < n_filter_pids && i < PIDS_MAX; i++)
		if (filter_pids[i] == pid)
			return 1;
	return 0;
}

static __always_inline bool thread_wanted(const struct thread *thread,
					  const struct task_struct *task)
{
	if (n_filter_pids && !pid_wanted(pids_now(task) >> 32))
		return false;
	/* asked every time: a process may change its user */
	if (filter_by_uid && task->cred->uid.val != filter_uid)
		return false;
	return !filter_followed || thread->followed;
}

/* The current thread, or NULL if the filters exclude the thread. */
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
	return thread_wanted(thread, task) ? thread : NULL;
}

/* A call begins at this stack pointer: calls that never returned lie below. */
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

#define RETURN_ADDRESS 8 /* bytes, popped from the stack by the return */

/* The frame of the call that returned to this stack pointer, or NULL. */
static __always_inline struct frame *frame_pop(struct thread *thread, __u64 sp)
{
	if (!thread->depth)
		return NULL;
	struct frame *frame = &thread->frames[(thread->depth - 1) & (FRAMES_MAX - 1)];
	if (frame->sp + RETURN_ADDRESS != sp)
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

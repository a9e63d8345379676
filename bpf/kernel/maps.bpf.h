/* SPDX-License-Identifier: MIT */
/*
 * The maps of the BPF programs, and the constants that the user program sets before
 * loading.
 */
#pragma once

#include "bucket.h"
#include "record.h"

#define CALLS_MAX    256
#define ARGS_SLOTS   16 /* ARGS_MAX, rounded up so that a mask checks bounds */
#define FRAMES_MAX   4
#define CONTEXTS_MAX 8
#define ENTRIES_MAX  262144
#define PLACES	     8 /* of a process in `processes`: candidates */

/* A call that has begun. A free keeps the first entry taken from the ledger here, to put
 * the entry back if the free fails. */
struct frame {
	__u64 sp;
	__u64 time;
	__u64 args[ARGS_SLOTS];
	__u32 call;
	__u32 has_taken;
	struct entry taken;
};

/* The effect of a call on the ledger, for the call's record. */
struct outcome {
	__u64 bytes;
	__u64 imported;
	__u64 held;
	__u32 n_freed;
	__u8 memory;
	__u8 flags;
};

/* Other results of a call. */
struct returned {
	__u64 duration;
	__u64 out[2];
	__s32 result;
	__s32 stack;
	__u32 uid;
};

/*
 * State of a thread; removed when the thread ends. Results of the call that returns are
 * here and not on the stack: the verifier follows each value on the stack, and would have
 * too many paths to look at.
 */
struct thread {
	__u64 process;	/* number of the process; 0: not looked up yet */
	__u32 place;	/* of the process in `processes`, at the last look */
	__u32 followed; /* belongs to the command, if there is a command */
	__u32 depth;
	__u32 way; /* of bucket_way() */
	struct frame frames[FRAMES_MAX];
	__u32 n_contexts;
	__u32 n_ended; /* allocations freed by the end of a context, `ended` bytes */
	struct outcome outcome;
	struct returned returned;
	__u64 ended;
	__u64 ended_imported; /* bytes of imported memory, freed by an unmap */
	__u64 contexts[CONTEXTS_MAX]; /* current ones, the last is on top */
};

/* Constant while the programs run. The tests define RODATA as writable. */
#ifndef RODATA
#define RODATA const volatile
#endif

/* The kinds of calls, one row each (call.c fills it in). */
RODATA struct call_info calls[CALLS_MAX];

/* The tool's pid namespace, if not the machine's: pids are numbers of this namespace. */
RODATA __u64 pidns_device;
RODATA __u64 pidns_inode;

RODATA __u32 filter_pids[PIDS_MAX];
RODATA __u32 n_filter_pids; /* 0: all */
RODATA __u32 filter_uid;    /* where filter_by_uid */
RODATA __u8 filter_by_uid;
RODATA __u8 filter_followed; /* only processes in `followed` and their children */
RODATA __u8 filter_failed;   /* show failed calls only */
RODATA __u32 show_memories;  /* bits, for EMIT_FREED */
RODATA __u8 want_events;     /* records for calls */
RODATA __u8 want_stacks;
RODATA __u64 size_min;
RODATA __u64 size_max = ~0ULL;

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, BUCKETS);
	__type(key, __u32);
	__type(value, struct bucket);
} buckets SEC(".maps");

/* Whether an allocation had no room in its bucket, ever. */
__u32 spilled;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ENTRIES_MAX);
	__type(key, struct ledger_key);
	__type(value, struct entry);
} ledger SEC(".maps");

/* Records of processes, each in one of the PLACES that process_id() leads to. An array,
 * since a lookup takes a few instructions there and several calls in a hash map. The user
 * program clears records of ended processes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PROCESSES_MAX);
	__type(key, __u32);
	__type(value, struct process);
} processes SEC(".maps");

/* Pids of the command and all descendants. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROCESSES_MAX);
	__type(key, __u32);
	__type(value, __u32);
} followed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CALLS_MAX);
	__type(key, __u32);
	__type(value, struct call_stat);
} stats SEC(".maps");

/* How often each failure came. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct result_key);
	__type(value, __u64);
} results SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, N_LOST);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 16384);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, STACK_DEPTH * sizeof(__u64));
} stacks SEC(".maps");

static __always_inline void count_lost(__u32 what)
{
	__u64 *n = bpf_map_lookup_elem(&lost, &what);

	if (n)
		__sync_fetch_and_add(n, 1);
}

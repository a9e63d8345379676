/* SPDX-License-Identifier: MIT */
/*
 * The maps of the BPF programs, and what the user program sets before they are loaded.
 */
#pragma once

#include "bucket.h"
#include "record.h"

#define CALLS_MAX    256
#define ARGS_SLOTS   16 /* ARGS_MAX, so that a mask is a check of bounds */
#define FRAMES_MAX   4
#define CONTEXTS_MAX 8
#define ENTRIES_MAX  262144
#define PLACES	     8 /* that a process may have in `processes` */

/* A call that has begun. The oldest entry of the ledger that a free takes is kept here,
 * so that one that fails can put it back. */
struct frame {
	__u64 sp;
	__u64 time;
	__u64 args[ARGS_SLOTS];
	__u32 call;
	__u32 has_taken;
	struct entry taken;
};

/* What a call did, for its record. */
struct outcome {
	__u64 bytes;
	__u64 held;
	__u32 n_freed;
	__u8 memory;
	__u8 flags;
};

/* What came of it otherwise. */
struct returned {
	__u64 duration;
	__u64 out[2];
	__s32 result;
	__s32 stack;
	__u32 uid;
};

/* What is known of a thread. Its end removes it. */
struct thread {
	__u64 process;	/* its number; 0: not looked at yet */
	__u32 place;	/* of its process in `processes`, or was */
	__u32 followed; /* belongs to the command, where one was given */
	__u32 depth;
	__u32 way; /* of bucket_way() */
	struct frame frames[FRAMES_MAX];
	__u32 n_contexts;
	__u32 n_ended; /* allocations that the end of a context takes along ... */
	struct outcome outcome;	  /* of the call that returns: here, since of what ... */
	struct returned returned; /* ... is on the stack the verifier knows too much */
	__u64 ended; /* ... and their bytes: here, so that the verifier knows neither */
	__u64 contexts[CONTEXTS_MAX]; /* current ones, the last is on top */
};

/* What is the same for as long as the programs run. The tests need it otherwise. */
#ifndef RODATA
#define RODATA const volatile
#endif

/* The kinds of calls, one row each (call.c fills it in). */
RODATA struct call_info calls[CALLS_MAX];

/* The tool's pid namespace, where it is not the machine's: pids are as it sees them. */
RODATA __u64 pidns_device;
RODATA __u64 pidns_inode;

RODATA __u32 filter_pids[PIDS_MAX];
RODATA __u32 n_filter_pids; /* 0: all */
RODATA __u32 filter_uid; /* where filter_by_uid */
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

/* One for each process_id(), in one of the PLACES that follow from it. An array, since a
 * look at it is a few instructions and one at a hash several calls. The user program
 * clears those that have ended. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PROCESSES_MAX);
	__type(key, __u32);
	__type(value, struct process);
} processes SEC(".maps");

/* Pids of the command and of its descendants. */
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

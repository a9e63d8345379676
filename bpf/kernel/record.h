/* SPDX-License-Identifier: MIT */
/*
 * What the BPF programs and the user program share: records of the ring buffer and the
 * keys and values of the maps.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC. A process is named by a number of its own
 * (process_id()), so that a pid that is used again is another process.
 */
#pragma once

#include <linux/types.h>

/* The parameters of a call that are kept: cuLaunchKernel's, up to its stream. */
#define ARGS_MAX    9
#define TEXT_SIZE   192
#define COMM_SIZE   16
#define PIDS_MAX    64 /* that -p takes */

#define STACK_DEPTH 64 /* frames that are kept */

/* Kinds of memory, as they are totalled. Those before PINNED are the GPU's own. */
enum memory {
	MEMORY_DEVICE,
	MEMORY_MANAGED,
	MEMORY_POOL,
	MEMORY_VMM,
	MEMORY_PINNED,
	MEMORY_REGISTERED,
	MEMORY_IMPORTED, /* another process's memory, opened in this one */
	MEMORY_RESERVED, /* addresses without memory */
	N_MEMORIES,
	MEMORY_NONE = N_MEMORIES,
};

#define N_GPU_MEMORIES MEMORY_PINNED
#define N_OWN_MEMORIES MEMORY_IMPORTED /* those before it are a process's own memory */

/* Name spaces of the ledger's keys. */
enum space {
	SPACE_POINTER, /* device, managed, pool, IPC: one cuMemFree() for all */
	SPACE_PINNED,
	SPACE_REGISTERED,
	SPACE_RANGE,	/* cuMemAddressReserve() */
	SPACE_HANDLE,	/* cuMemCreate()'s handle; entry.physical is the memory */
	SPACE_PHYSICAL, /* the memory itself, numbered: lives as long as handles and maps
			 */
	SPACE_MAPPING,	/* cuMemMap() */
	SPACE_PRIMARY,	/* device number; entry.context is its primary context */
};

/* What a call does to the ledger. */
enum op {
	OP_NONE,
	OP_ALLOC,    /* *out is new memory */
	OP_REGISTER, /* the first parameter is new memory */
	OP_FREE,     /* the first parameter is memory no more */
	OP_CREATE,
	OP_IMPORT,
	OP_RETAIN,
	OP_RELEASE,
	OP_MAP,
	OP_UNMAP,
	OP_CONTEXT_CREATE,
	OP_CONTEXT_DESTROY,
	OP_CONTEXT_SET,
	OP_CONTEXT_PUSH,
	OP_CONTEXT_POP,
	OP_PRIMARY_RETAIN,
	OP_PRIMARY_RELEASE,
	OP_PRIMARY_RESET,
	OP_LAUNCH_CONFIG, /* reads a CUlaunchConfig into the parameters */
	OP_COPY_STRUCT,	  /* reads the extent of a CUDA_MEMCPY2D or CUDA_MEMCPY3D */
	OP_SET_ACCESS,	  /* reads a CUmemAccessDesc into the parameters */
};

/* The programs there are, so that each is small: one link a kind (probes.c). */
enum kind {
	KIND_PLAIN,
	KIND_ALLOC,
	KIND_FREE,
	KIND_VMM,
	KIND_CONTEXT,
	KIND_COUNT, /* counted and nothing else */
	KIND_TALLY, /* the same of calls without a size, where all processes are wanted */
	N_KINDS,
};

#define ARG_NONE 0xff

/* Whether a call is an event, or only seen for the sake of the ledger. */
enum emit {
	EMIT_NEVER,
	EMIT_ALWAYS,
	EMIT_FREED, /* where it frees memory of a kind in `show_memories` */
};

/* What the BPF programs must know of a call; made from its row in calls.h. */
struct call_info {
	__u8 op;
	__u8 memory;	  /* that it books */
	__u8 space;	  /* of its addresses */
	__u8 n_args;	  /* kept */
	__u8 out[2];	  /* parameters that point to a result, or ARG_NONE */
	__u8 out_size;	  /* bytes of the first result: 4 or 8 */
	__u8 size;	  /* parameter with the size, or ARG_NONE; pitched: see there */
	__u8 times;	  /* parameter that multiplies it, or ARG_NONE */
	__u8 shift;	  /* bytes of an element, as a power of two */
	__u8 text;	  /* parameter that is a string, or ARG_NONE */
	__u8 n_extents;	  /* OP_COPY_STRUCT: 2 or 3 numbers ... */
	__u16 extents;	  /* ... at this offset */
	__u8 pitched;	  /* the size is *pPitch times `times` */
	__u8 emit;	  /* enum emit */
	__u8 counted;	  /* belongs in the summary */
	__u8 size_is_int; /* of the size, 4 bytes count ... */
	__u8 address_is_int; /* ... and of the address that is freed */
	__u8 unused[5];
};

enum record_type {
	RECORD_CALL,
	RECORD_TEXT, /* a record_text */
	RECORD_EXIT, /* a record_exit: what it held, which is free now */
	RECORD_HELD, /* a record_exit: what is held after the end of a context */
};

enum record_flag {
	RECORD_UNKNOWN = 1, /* frees what was not seen allocated */
	RECORD_BOOKED = 2,  /* `bytes` were added to `held` */
	RECORD_FREED = 4,   /* `bytes` were taken from `held` */
};

struct record {
	__u8 type;
	__u8 flags;
	__u8 memory; /* kind, with RECORD_BOOKED or RECORD_FREED */
	__u8 unused;
	__u16 call;
	__u16 unused2;
	__s32 result;
	__s32 stack; /* a key of `stacks`; negative: none */
	__u32 pid;
	__u32 tid;
	__u32 uid;
	__u32 n_freed; /* allocations that the end of a context took along */
	__u64 process;
	__u64 time; /* of entry */
	__u64 duration;
	__u64 bytes;
	__u64 held; /* by the process, of this kind, after the call */
	__u64 out[2];
	char comm[COMM_SIZE];
	__u64 args[ARGS_MAX];
};

struct record_text {
	struct record record;
	char text[TEXT_SIZE];
};

/* The end of a process, or its exec: all that it held is free. */
struct record_exit {
	struct record record;
	__u64 held[N_MEMORIES];
	__u64 n_held[N_MEMORIES];
};

struct ledger_key {
	__u64 process;
	__u64 address;
	__u32 space;
	__u32 unused;
};

struct entry {
	__u64 bytes;
	__u64 time; /* when it was booked */
	__u64 context;
	__u64 physical;
	__s32 stack;
	__u32 tid;
	__u32 references; /* SPACE_HANDLE, SPACE_PHYSICAL, SPACE_PRIMARY */
	__u16 call;
	__u8 memory;
	__u8 unused;
};

struct process {
	__u64 id; /* its number; 0: nobody's */
	__u64 start;
	__u64 ended; /* or 0 */
	__u64 held[N_MEMORIES];
	__u64 peak[N_MEMORIES];
	__u64 n_held[N_MEMORIES];
	__u64 gpu;	/* held of the GPU's own kinds ... */
	__u64 gpu_peak; /* ... and the most of it */
	__u64 unknown;	/* frees of what was not seen allocated */
	__u64 context;	/* the only one that it was seen to use, or 0 ... */
	__u32 contexts; /* ... 2 where there were several */
	__u32 unused;
	__u32 pid;
	__u32 uid;
	char comm[COMM_SIZE];
};

#define PROCESSES_MAX 8192 /* a power of two */

#define N_LATENCIES   40
#define N_SIZES	      48

/* One call's totals, on one CPU. Slot N of a histogram counts 2^N up to 2^(N+1)-1. */
struct call_stat {
	__u64 calls; /* the sum of `latency`: made when it is read */
	__u64 failures;
	__u64 bytes; /* of calls that succeeded */
	__u64 time;
	__u64 latency[N_LATENCIES];
	__u64 size[N_SIZES];
};

struct result_key {
	__u32 call;
	__s32 result;
};

/* What could not be kept, one counter each. */
enum lost {
	LOST_EVENTS,  /* no room in the ring buffer */
	LOST_ENTRIES, /* no room in the ledger */
	LOST_PROCESSES,
	LOST_STACKS,
	LOST_CALLS, /* no room to remember the call until its return */
	N_LOST,
};

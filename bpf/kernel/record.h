/* SPDX-License-Identifier: MIT */
/*
 * Types shared by the BPF programs and the user program: records of the ring buffer, keys
 * and values of the maps.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC. A process is named by a unique number
 * (process_id()), so that a pid in use again is another process.
 */
#pragma once

#include <linux/types.h>

/* Parameters kept of a call: those of cuLaunchKernel, up to the stream. */
#define ARGS_MAX    9
#define TEXT_SIZE   192
#define COMM_SIZE   16
#define PIDS_MAX    64 /* of --pid, at most */

#define STACK_DEPTH 64 /* frames kept of a stack */

/* Kinds of memory, as they are totalled. Those before PINNED are the GPU's own. */
enum memory {
	MEMORY_DEVICE,
	MEMORY_MANAGED,
	MEMORY_POOL,
	MEMORY_VMM,
	MEMORY_PINNED,
	MEMORY_REGISTERED,
	MEMORY_IMPORTED, /* memory of another process, opened here */
	MEMORY_RESERVED, /* addresses without memory */
	N_MEMORIES,
	MEMORY_NONE = N_MEMORIES,
};

#define N_GPU_MEMORIES MEMORY_PINNED
#define N_OWN_MEMORIES MEMORY_IMPORTED /* the kinds before are a process's own memory */

/* Name spaces of the ledger's keys. */
enum space {
	SPACE_POINTER, /* device, managed, pool, IPC: cuMemFree() frees all */
	SPACE_PINNED,
	SPACE_REGISTERED,
	SPACE_RANGE,	/* cuMemAddressReserve() */
	SPACE_HANDLE,	/* cuMemCreate()'s handle; entry.physical is the memory */
	SPACE_PHYSICAL, /* the memory itself, numbered: lives as long as handles and maps
			 */
	SPACE_MAPPING,	/* cuMemMap() */
	SPACE_PRIMARY,	/* device number; entry.context is the primary context */
};

/* The effect of a call on the ledger. */
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

/* Kinds of programs, so that each program is small: a link a kind (probes.c). */
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
	EMIT_FREED, /* if the call frees a kind of `show_memories` */
};

/* A call as the BPF programs see it; made from the row in calls.h. */
struct call_info {
	__u8 op;
	__u8 memory;	  /* booked by the call */
	__u8 space;	  /* of the call's addresses */
	__u8 n_args;	  /* kept */
	__u8 out[2];	  /* parameters with the address of a result, or ARG_NONE */
	__u8 out_size;	  /* bytes of the first result: 4 or 8 */
	__u8 size;	  /* parameter with the size, or ARG_NONE; pitched: see there */
	__u8 times;	  /* parameter to multiply `size` by, or ARG_NONE */
	__u8 shift;	  /* bytes of an element, as a power of two */
	__u8 text;	  /* parameter with a string, or ARG_NONE */
	__u8 n_extents;	  /* OP_COPY_STRUCT: 2 or 3 numbers ... */
	__u16 extents;	  /* ... at this offset */
	__u8 pitched;	  /* the size is *pPitch times `times` */
	__u8 emit;	  /* enum emit */
	__u8 counted;	  /* belongs in the summary */
	__u8 size_is_int; /* of the size, 4 bytes count ... */
	__u8 address_is_int; /* ... and of the freed address */
	__u8 unused[5];
};

enum record_type {
	RECORD_CALL,
	RECORD_TEXT, /* a record_text */
	RECORD_EXIT, /* a record_exit: memory that is free now */
	RECORD_HELD, /* a record_exit: balances after a call that freed several kinds */
};

enum record_flag {
	RECORD_UNKNOWN = 1, /* frees memory of unknown origin */
	RECORD_BOOKED = 2,  /* `bytes` were added to `held` */
	RECORD_FREED = 4,   /* `bytes` were taken from `held` */
	RECORD_SILENT = 8,  /* only for the names of leased memory (import.c) */
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
	__u32 n_freed; /* allocations freed by the end of a context */
	__u64 process;
	__u64 time; /* of entry */
	__u64 duration;
	__u64 bytes;
	__u64 imported; /* bytes unmapped beside `bytes` of the process's own memory */
	__u64 held;	/* by the process, of this kind, after the call */
	__u64 out[2];
	char comm[COMM_SIZE];
	__u64 args[ARGS_MAX];
};

struct record_text {
	struct record record;
	char text[TEXT_SIZE];
};

/* The end of a process, or an exec: all memory of the process is free. */
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
	__u64 time; /* of booking */
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
	__u64 id; /* number of the process; 0: free */
	__u64 start;
	__u64 ended; /* or 0 */
	__u64 held[N_MEMORIES];
	__u64 peak[N_MEMORIES];
	__u64 n_held[N_MEMORIES];
	__u64 gpu;	/* held of the GPU's own kinds ... */
	__u64 gpu_peak; /* ... and the peak */
	__u64 unknown;	/* frees of memory of unknown origin */
	__u64 context;	/* the only context seen, or 0 ... */
	__u32 contexts; /* ... 2 where there were several */
	__u32 unused;
	__u32 pid;
	__u32 uid;
	char comm[COMM_SIZE];
};

#define PROCESSES_MAX 8192 /* a power of two */

#define N_LATENCIES   40
#define N_SIZES	      48

/* Totals of a call on a CPU. Slot N of a histogram counts 2^N up to 2^(N+1)-1. */
struct call_stat {
	__u64 calls; /* the sum of `latency`: made by the reader */
	__u64 failures;
	__u64 bytes; /* of successful calls */
	__u64 time;
	__u64 latency[N_LATENCIES];
	__u64 size[N_SIZES];
};

struct result_key {
	__u32 call;
	__s32 result;
};

/* Things that could not be kept, each with a counter. */
enum lost {
	LOST_EVENTS,  /* no room in the ring buffer */
	LOST_ENTRIES, /* no room in the ledger */
	LOST_PROCESSES,
	LOST_STACKS,
	LOST_CALLS, /* no room to remember the call until its return */
	N_LOST,
};

/* SPDX-License-Identifier: MIT */
/*
 * The wire between the broker and its workers: an ABI between two programs of one build.
 *
 * A worker is started with a SOCK_SEQPACKET socket at descriptor 3, its staging memfd at
 * descriptor 4 and a second such socket, for what is urgent, at descriptor 5. The broker
 * sends `struct wire_request`, one a message; the worker answers each on the first socket
 * with exactly one `struct wire_reply` that carries the request's id, in any order. A worker never speaks unasked and never sends descriptors. Both sides check
 * every field of what they receive; the broker ends a worker that breaks a rule, a worker
 * that is sent nonsense exits.
 *
 * Requests are taken from the socket in order. MAP, UNMAP, MAP_HOST, STREAM_CREATE and
 * STREAM_DESTROY are finished before the next request is looked at, so
 * a use may follow its mapping at once. SAVE is urgent: it comes by the second socket and
 * is done whatever hangs in the driver. Everything else may run at the same time as its
 * neighbours: whoever needs an order waits for the answer of the first (the broker does,
 * in broker/op/op.c). On one user stream (stream != 0) commands run in the order
 * sent. A LAUNCH is sent while nothing but other LAUNCHes is under way on its stream: it
 * stands in the GPU's queue when the one behind it is looked at.
 */
#pragma once

#include <stdint.h>

#include <gpumem/location.h>

#define WIRE_SOCKET_FD	3
#define WIRE_STAGING_FD 4
#define WIRE_URGENT_FD	5 /* the last one */

/* Raised at every change of this file: a broker refuses the worker of another build. */
#define WIRE_VERSION 4

/* Limits that both sides enforce. */
#define WIRE_DEVICES_MAX   16	    /* devices: 0 .. 15 */
#define WIRE_STREAMS_MAX   4096	    /* user streams: ids 1 .. 4095, dealt by the broker */
#define WIRE_TRANSFER_MAX  0x100000 /* bytes of one READ or WRITE */
#define WIRE_IMAGE_MAX	   (256u << 20) /* bytes of a module's image */
#define WIRE_FUNCTIONS_MAX 65536	/* functions of one module: 0 .. 65535 */
#define WIRE_PAYLOAD_MAX   0x8000	/* bytes behind one record */
#define WIRE_AFTER_MAX	   32		/* ends that one LAUNCH waits for */
#define WIRE_ARGS_MAX	   1024		/* arguments of one LAUNCH */
#define WIRE_ARGS_BYTES	   0x4000	/* and their bytes */

/*
 * Address ranges, dealt by the broker and reserved by every worker before anything else,
 * so that an allocation has the same address in all of them. Each device has its own
 * range, host memory has one. The thread sanitizer keeps its own tables where these
 * stand, so its build moves them to where it lets programs map memory.
 */
#if defined(__SANITIZE_THREAD__)
#define WIRE_HOST_BASE	 0x7e8000000000ull
#define WIRE_HOST_SPAN	 (64ull << 30)
#define WIRE_DEVICE_BASE 0x7ea000000000ull
#define WIRE_DEVICE_SPAN (16ull << 30)
#else
#define WIRE_HOST_BASE	 0x180000000000ull
#define WIRE_HOST_SPAN	 (4ull << 40)
#define WIRE_DEVICE_BASE 0x200000000000ull
#define WIRE_DEVICE_SPAN (1ull << 40)
#endif

enum wire_op {
	/*
	 * First, once. Answer: value[0] = WIRE_VERSION, value[1] = number of devices.
	 * An error here says why the worker can't work; it exits after sending it.
	 */
	WIRE_HELLO = 1,

	/*
	 * Maps physical memory, sent along as one descriptor (a POSIX file handle of the
	 * driver), at address in the range of device; flags: WIRE_READ_ONLY.
	 */
	WIRE_MAP,
	WIRE_UNMAP, /* device, address, length: exactly what one MAP mapped */

	/*
	 * Maps the memfd sent along at address in the host range and registers it with
	 * the driver (portable, mapped); flags: WIRE_READ_ONLY. UNMAP_HOST undoes exactly
	 * one of these.
	 */
	WIRE_MAP_HOST,
	WIRE_UNMAP_HOST,

	/* A user stream of that id on device, with that priority. */
	WIRE_STREAM_CREATE,
	WIRE_STREAM_DESTROY,

	/*
	 * Memory of this worker's own contexts; flags: WIRE_ASYNC for the stream-ordered
	 * allocator (on stream), WIRE_MANAGED for managed memory, which starts attached
	 * to the host alone with WIRE_ATTACH_HOST, else cuMemAlloc.
	 * Answer: value[0] = address, reads as zeros.
	 */
	WIRE_ALLOC,
	WIRE_FREE, /* device, address, flags and stream as for ALLOC */

	/* Device or host memory at address <-> length bytes at offset of the staging
	   area. */
	WIRE_READ,
	WIRE_WRITE,

	/* length bytes from source (on source_device) to address (on device), no overlap.
	 */
	WIRE_COPY,

	/*
	 * length bytes at address with pattern, pattern_size (1, 2, 4, 8) bytes each;
	 * with WIRE_STAY by copies from the host, which leave managed memory where it is.
	 */
	WIRE_FILL,

	/* Answer: value[0] = free bytes of device, value[1] = its total. */
	WIRE_MEMORY,

	/*
	 * Loads an image, sent along as a sealed memfd, on device as module: a number
	 * dealt by the broker that no other image gets. Whatever names the module may
	 * follow at once and waits for the load; one that failed is tried again then.
	 * Answer: value[0] = number of functions, value[1] = 1, or both 0 where the
	 * driver can't tell them.
	 */
	WIRE_MODULE_LOAD,
	WIRE_MODULE_UNLOAD, /* also of one whose LOAD failed */

	/*
	 * What the compiler said when the module was loaded, well or badly: text, at most
	 * length bytes, at offset of the staging area. Answer: value[0] = how many.
	 */
	WIRE_MODULE_LOG,

	/*
	 * Records of functions (protocol/function_record.h) from number function on, as
	 * many as fit in length bytes at offset of the staging area, at least one.
	 * Answer: value[0] = how many, value[1] = how many bytes of them.
	 */
	WIRE_MODULE_FUNCTIONS,

	/*
	 * The function whose name stands at offset of the staging area, NUL terminated
	 * within length bytes; its record takes its place. For drivers that can't tell.
	 * Answer: value[0] = its number, value[1] = bytes of the record.
	 */
	WIRE_MODULE_FIND,

	/*
	 * The attributes of a function: one int64_t for each row of FUNCTION_LIST
	 * (gpumem/function.h) at offset of the staging area.
	 * Answer: value[0] = a bit for each row that the driver knows.
	 */
	WIRE_FUNCTION_ATTRIBUTES,

	/*
	 * Managed memory. A range stands for all pages that it touches; device says in
	 * whose context the driver is asked.
	 *
	 * PREFETCH moves the pages to location; they are there when it is answered.
	 */
	WIRE_PREFETCH,

	/* advice: an enum wire_advice, with the location that it is about, if any. */
	WIRE_ADVISE,

	/*
	 * Attaches the memory that begins at address to all streams; flags:
	 * WIRE_ATTACH_HOST, to the host alone; WIRE_ATTACH_STREAM, to stream alone.
	 */
	WIRE_ATTACH,

	/*
	 * What the driver itself says of the memory from address on. Answer: value[0] =
	 * as below; value[1] = how many bytes from address on it is said of, at most
	 * length. What follows may be the same again.
	 */
	WIRE_RANGE,

	/*
	 * Managed memory to the file sent along and back, length bytes at source of the
	 * file. Done by the CPU, also when the contexts are lost.
	 */
	WIRE_SAVE,
	WIRE_RESTORE,

	/*
	 * Runs function of module on a user stream of device; the payload, length bytes,
	 * says how. flags: WIRE_COOPERATIVE. Answered when the kernel is done: value[0] =
	 * its nanoseconds, from when nothing was before it on its stream. Error
	 * ECANCELED: it was queued behind a kernel that failed.
	 */
	WIRE_LAUNCH,

	WIRE_OP_END_,
};

enum wire_flag {
	WIRE_READ_ONLY = 1 << 0,     /* MAP, MAP_HOST */
	WIRE_ASYNC = 1 << 1,	     /* ALLOC, FREE */
	WIRE_MANAGED = 1 << 2,	     /* ALLOC */
	WIRE_ATTACH_HOST = 1 << 3,   /* ALLOC, ATTACH */
	WIRE_ATTACH_STREAM = 1 << 4, /* ATTACH */
	WIRE_COOPERATIVE = 1 << 5,   /* LAUNCH */
	WIRE_STAY = 1 << 6,	     /* FILL */
	WIRE_BY_CPU = 1 << 7, /* READ, WRITE, FILL with WIRE_STAY: of managed memory */
};

/*
 * The payload of a LAUNCH. Behind it stand n_after ids (uint64_t) of LAUNCHes sent
 * before, on other streams, whose end it waits for (one that is not under way has ended);
 * n_args of struct wire_arg; n_bytes bytes of the arguments' values.
 */
struct wire_launch {
	uint32_t grid[3];
	uint32_t block[3];
	uint32_t cluster[3]; /* all zero: none */
	uint32_t shared;     /* dynamic shared memory in bytes */
	uint32_t n_after;
	uint32_t n_args;
	uint32_t n_bytes;
	uint32_t reserved;
};

struct wire_arg {
	uint32_t offset; /* in the bytes behind, a multiple of 8 */
	uint32_t size;
};

enum wire_advice {
	WIRE_SET_READ_MOSTLY = 1,
	WIRE_UNSET_READ_MOSTLY,
	WIRE_SET_PREFERRED_LOCATION, /* location */
	WIRE_UNSET_PREFERRED_LOCATION,
	WIRE_SET_ACCESSED_BY,	/* location: cpu or a device */
	WIRE_UNSET_ACCESSED_BY, /* the same */
	N_WIRE_ADVICES,
};

/* value[0] of RANGE: two locations, a set of them, a bit. */
#define WIRE_RANGE_PREFERRED(value)   ((uint16_t)(value))
#define WIRE_RANGE_PREFETCHED(value)  ((uint16_t)((value) >> 16))
#define WIRE_RANGE_ACCESSED_BY(value) ((uint32_t)((value) >> 32) & 0x1ffff)
#define WIRE_RANGE_READ_MOSTLY	      (1ull << 63)
#define WIRE_RANGE_BITS		      (0x1ffffffffffffull | WIRE_RANGE_READ_MOSTLY)

/*
 * Devices are the driver's ordinals. Where the memory is host memory, device and
 * source_device say whose context does the work. Unused fields are zero and checked.
 */
struct wire_request {
	uint64_t id; /* never zero, unique among the requests under way */
	uint32_t op;
	uint32_t flags;
	uint32_t device;
	uint32_t source_device; /* COPY */
	uint32_t stream;	/* 0: any; else a user stream of device */
	int32_t priority;	/* STREAM_CREATE */
	uint64_t address;
	uint64_t source;  /* COPY */
	uint64_t length;  /* bytes; never zero where it is used */
	uint64_t offset;  /* READ, WRITE: of the staging area */
	uint64_t pattern; /* FILL: the low pattern_size bytes */
	uint32_t pattern_size;
	uint32_t module;   /* of MODULE_* and what has to do with functions: never zero */
	uint32_t function; /* its number; MODULE_FUNCTIONS: the first one's */
	uint32_t location; /* PREFETCH, ADVISE: see gpumem/location.h */
	uint32_t advice;   /* ADVISE */
	uint32_t reserved;
};

struct wire_reply {
	uint64_t id;
	int32_t error;	/* 0 or a positive errno */
	int32_t call;	/* row of the driver's X-list that failed, -1 when none */
	int32_t result; /* its CUresult */
	uint32_t reserved;
	uint64_t value[2];
};

_Static_assert(sizeof(struct wire_request) == 96, "no padding on the wire");
_Static_assert(sizeof(struct wire_reply) == 40, "no padding on the wire");
_Static_assert(sizeof(struct wire_launch) == 56, "no padding on the wire");

/* SPDX-License-Identifier: MIT */
/*
 * The wire between the broker and its workers: an ABI between two programs of the same
 * build.
 *
 * A worker is started with a SOCK_SEQPACKET socket at descriptor 3, its staging memfd at
 * descriptor 4, and a second socket of this type, for urgent requests, at descriptor 5.
 * A process of files is started in the same way, without a staging memfd. It opens the
 * files of its owner and calls no driver; FILE_OPEN is its only request after HELLO.
 * Each message of the broker is a `struct wire_request`. The worker answers each request
 * on the first socket with exactly one `struct wire_reply` with the same id, in any
 * order. Behind a LAUNCH's error may be text, the driver's own messages. An owner's
 * worker that can't go on sends its last words, a reply to no request with text, and
 * exits. A worker never sends other messages and never sends descriptors. Both sides
 * check every field received. The broker ends a worker that breaks a rule; a worker exits
 * after a malformed request.
 *
 * Requests are received in order. MAP, UNMAP, MAP_HOST, STREAM_CREATE and STREAM_DESTROY
 * are finished before the next request is received, so a use may follow its mapping at
 * once. SAVE is urgent: it is sent by the second socket and served even when other
 * requests hang in the driver. All other requests may run at the same time. To keep two
 * of them in order the sender waits for the first answer (as broker/op/op.c does).
 * Commands on the same user stream (stream != 0) run in the order sent. A LAUNCH is sent
 * only while no other requests than LAUNCHes are under way on its stream; it is in the
 * GPU's queue before the next LAUNCH is handled.
 */
#pragma once

#include <stdint.h>

#include <gpumem/location.h>

#define WIRE_SOCKET_FD	3
#define WIRE_STAGING_FD 4
#define WIRE_URGENT_FD	5 /* the highest */

/* Raised with every change of this file: a broker refuses a worker of another build. */
#define WIRE_VERSION 11

/* Limits enforced by both sides. */
#define WIRE_DEVICES_MAX   16	/* devices: 0 .. 15 */
#define WIRE_STREAMS_MAX   4096 /* user streams: ids 1 .. 4095, assigned by the broker */
#define WIRE_TRANSFER_MAX  0x100000	/* bytes of a READ or WRITE */
#define WIRE_IMAGE_MAX	   (256u << 20) /* bytes of a module's image */
#define WIRE_FUNCTIONS_MAX 65536	/* functions of a module: 0 .. 65535 */
#define WIRE_PAYLOAD_MAX   0x8000	/* bytes behind a record */
#define WIRE_TEXT_MAX	   512		/* bytes of text behind a reply */
#define WIRE_AFTER_MAX	   32		/* LAUNCHes that a LAUNCH waits for */
#define WIRE_ARGS_MAX	   1024		/* arguments of a LAUNCH */
#define WIRE_ARGS_BYTES	   0x4000	/* bytes of these arguments */

/*
 * Address ranges, assigned by the broker and reserved by every worker before anything
 * else, so that an allocation has the same address in all workers. There is a range for
 * each device and a range for host memory. The thread sanitizer keeps its tables in these
 * ranges; in its build the ranges are where the sanitizer lets programs map memory.
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
	 * The first request, sent once. flags: WIRE_FILES. Answer: value[0] =
	 * WIRE_VERSION, value[1] = number of devices, 0 of a process of files. An error
	 * tells why the worker can't work; the worker then exits.
	 */
	WIRE_HELLO = 1,

	/*
	 * Maps physical memory, sent along as a descriptor (a POSIX file handle of the
	 * driver), at address in the range of device; flags: WIRE_READ_ONLY.
	 */
	WIRE_MAP,
	WIRE_UNMAP, /* device, address, length: exactly as in the MAP */

	/*
	 * Maps the memfd sent along at address in the host range and registers the memory
	 * with the driver (portable, mapped); flags: WIRE_READ_ONLY. UNMAP_HOST undoes
	 * exactly one MAP_HOST.
	 */
	WIRE_MAP_HOST,
	WIRE_UNMAP_HOST,

	/* Makes a user stream with this id and priority on device. */
	WIRE_STREAM_CREATE,
	WIRE_STREAM_DESTROY,

	/*
	 * Memory of this worker's contexts; flags: WIRE_ASYNC for the stream-ordered
	 * allocator (on stream); WIRE_MANAGED for managed memory, with WIRE_ATTACH_HOST
	 * attached to the host alone; else cuMemAlloc.
	 * Answer: value[0] = address; the memory is zeroed.
	 */
	WIRE_ALLOC,
	WIRE_FREE, /* device, address, flags and stream as for ALLOC */

	/*
	 * Device or host memory at address <-> length bytes at offset of the staging
	 * area.
	 */
	WIRE_READ,
	WIRE_WRITE,

	/*
	 * Copies length bytes from source (on source_device) to address (on device), no
	 * overlap.
	 */
	WIRE_COPY,

	/*
	 * Fills length bytes at address with pattern, pattern_size (1, 2, 4, 8) bytes
	 * each. With WIRE_STAY by copies from the host, which do not migrate managed
	 * memory.
	 */
	WIRE_FILL,

	/* Answer: value[0] = free bytes of device, value[1] = its total. */
	WIRE_MEMORY,

	/*
	 * Loads an image, sent along as a sealed memfd, on device as module: a number
	 * assigned by the broker and never given to another image. Requests that name the
	 * module may follow at once and wait for the load; after a failed load they try
	 * again.
	 * Answer: value[0] = number of functions, value[1] = 1; or both 0 when the driver
	 * can't list functions.
	 */
	WIRE_MODULE_LOAD,
	WIRE_MODULE_UNLOAD, /* also after a failed LOAD */

	/*
	 * The compiler's log of the load, successful or not: text, at most length bytes,
	 * at offset of the staging area. Answer: value[0] = bytes of text.
	 */
	WIRE_MODULE_LOG,

	/*
	 * Records of functions (protocol/function_record.h) from number function on, as
	 * many as fit in length bytes at offset of the staging area, at least one.
	 * Answer: value[0] = number of records, value[1] = their bytes.
	 */
	WIRE_MODULE_FUNCTIONS,

	/*
	 * Finds the function whose name is at offset of the staging area, NUL terminated
	 * within length bytes; its record replaces the name. For drivers that can't list
	 * functions.
	 * Answer: value[0] = its number, value[1] = bytes of the record.
	 */
	WIRE_MODULE_FIND,

	/*
	 * The attributes of a function: an int64_t for each row of FUNCTION_LIST
	 * (gpumem/function.h) at offset of the staging area.
	 * Answer: value[0] = a bit for each row that the driver knows.
	 */
	WIRE_FUNCTION_ATTRIBUTES,

	/*
	 * Managed memory. A range stands for all pages that it touches; the driver is
	 * called in the context of device.
	 *
	 * PREFETCH moves the pages to location; the answer comes after the move.
	 */
	WIRE_PREFETCH,

	/* advice: an enum wire_advice, with a location if the advice needs one. */
	WIRE_ADVISE,

	/*
	 * Attaches the memory that begins at address to all streams; flags:
	 * WIRE_ATTACH_HOST, to the host alone; WIRE_ATTACH_STREAM, to stream alone.
	 */
	WIRE_ATTACH,

	/*
	 * The driver's attributes of the memory from address on. Answer: value[0] = as in
	 * WIRE_RANGE_PREFERRED and following; value[1] = bytes from address on with these
	 * attributes, at most length. The bytes behind may have the same attributes
	 * again.
	 */
	WIRE_RANGE,

	/*
	 * Copies managed memory to the file sent along, and back: length bytes, at source
	 * in the file. The CPU copies, even when the contexts are lost.
	 */
	WIRE_SAVE,
	WIRE_RESTORE,

	/*
	 * Runs function of module on a user stream of device, as described by the
	 * payload of length bytes. flags: WIRE_COOPERATIVE. Answered when the kernel is
	 * done: value[0] = its nanoseconds, counted from when it was first on its
	 * stream. Error ECANCELED: an earlier kernel in the queue failed.
	 */
	WIRE_LAUNCH,

	/*
	 * Opens the file that the payload names (struct wire_file_open), to be loaded
	 * from byte source on, or with WIRE_TO_FILE to be saved. The worker with the
	 * other end of the socket sent along has the bytes moved (struct wire_file_ask),
	 * as long as that end is open. flags: WIRE_TO_END. Answered when the file is
	 * closed again.
	 */
	WIRE_FILE_OPEN,

	/*
	 * Moves length bytes between address on device and the file of a FILE_OPEN, whose
	 * socket is sent along. source: as in the FILE_OPEN. A struct wire_file is at
	 * offset of the staging area. The file that a FILE_SAVE makes of these bytes
	 * replaces the old one when it is complete.
	 * Answer: value[0] = bytes moved from the start on; value[1] = WIRE_FILE_ENDED().
	 */
	WIRE_FILE_LOAD,
	WIRE_FILE_SAVE,

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
	WIRE_BY_CPU = 1 << 7,  /* READ, WRITE, FILL with WIRE_STAY: for managed memory */
	WIRE_TO_END = 1 << 8,  /* FILE_OPEN: the rest of the file, at most length bytes */
	WIRE_TO_FILE = 1 << 9, /* FILE_OPEN: the file is made */
	WIRE_FILES = 1 << 10,  /* HELLO: to a process of files */
};

/* In the staging area, for as long as a FILE_LOAD or FILE_SAVE runs. */
struct wire_file {
	uint32_t stop; /* set by the broker: move no further piece */
	uint32_t reserved;
	uint64_t total; /* set by the worker: bytes to move; 0: none is touched yet */
	uint64_t done;	/* counted by the worker, for people */
};

#define WIRE_PATH_SIZE 4096

/* The payload of a FILE_OPEN. */
struct wire_file_open {
	uint64_t length; /* bytes to move */
	/* Of the only file that is to be loaded, as in struct stat. inode 0: any file. */
	uint64_t device, inode;
	uint32_t mode; /* WIRE_TO_FILE: of a file that is not there yet */
	uint32_t reserved;
	char path[]; /* absolute, terminated; ends the payload */
};

/* How a FILE_LOAD or FILE_SAVE ended. Nothing was moved before NOT_MOVED. */
enum wire_file_end {
	WIRE_FILE_DONE,
	WIRE_FILE_NOT_OPENED,	/* errno */
	WIRE_FILE_NOT_REGULAR,	/* errno: EISDIR, EINVAL */
	WIRE_FILE_IN_MOUNT,	/* of a broker */
	WIRE_FILE_ANOTHER,	/* errno: than the only one to be loaded */
	WIRE_FILE_OUT_OF_RANGE, /* value[0] = size of the file */
	WIRE_FILE_NOT_MOVED,	/* errno, where value[0] says */
	WIRE_FILE_SHORT,	/* the file has become shorter, and ends there */
	WIRE_FILE_NOT_KEPT,	/* errno: FILE_SAVE, after all bytes were written */
	WIRE_FILE_STOPPED,
	WIRE_FILE_LOST, /* the process of files has ended */
	N_WIRE_FILE_ENDS,
};

/* value[1] of FILE_LOAD and FILE_SAVE, and its parts. */
#define WIRE_FILE_ENDED(end, error) ((uint64_t)(end) << 32 | (uint32_t)(error))
#define WIRE_FILE_END(value)	    ((uint32_t)((value) >> 32))
#define WIRE_FILE_ERROR(value)	    ((uint32_t)(value))

/*
 * By the socket of a FILE_OPEN, of type SOCK_SEQPACKET. The process of files first tells
 * how the opening ended. KEEP and CLOSE are answered, LANEs are not.
 */
enum wire_file_ask {
	/*
	 * A lane: a socket of this type and a memfd, sent along. Through the lane go the
	 * pieces of any file of this process, until the lane's socket is closed.
	 */
	WIRE_FILE_LANE = 1,
	/* All bytes are written: gives the saved file its name. */
	WIRE_FILE_KEEP,
	/* No piece is under way: closes the file, and says so. */
	WIRE_FILE_CLOSE,
	N_WIRE_FILE_ASKS,
};

struct wire_file_told {
	uint64_t bytes;	  /* to move; WIRE_FILE_OUT_OF_RANGE: size of the file */
	uint64_t process; /* number of the process of files, never zero */
	uint64_t file;	  /* number of the open file there */
	uint32_t end;	  /* enum wire_file_end: DONE, or why it can't go on */
	uint32_t error;	  /* errno */
};

/* By the socket of a lane: reads bytes of a file into its memfd, or writes them. */
struct wire_piece {
	uint64_t file;
	uint64_t at; /* the first byte in the file */
	uint32_t length;
	uint32_t place; /* of the first byte in the memfd */
};

struct wire_piece_told {
	uint32_t moved; /* bytes from the start on, also on failure */
	uint32_t error; /* errno; ENODATA: the file ends there */
};

/*
 * The payload of a LAUNCH. Three arrays follow: n_after ids (uint64_t) of earlier
 * LAUNCHes on other streams, to wait for (an id not under way has ended); n_args of
 * struct wire_arg; n_bytes bytes of argument values.
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
	uint32_t offset; /* in the argument values, a multiple of 8 */
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

/* value[0] of RANGE: two locations, a set of locations, a bit. */
#define WIRE_RANGE_PREFERRED(value)   ((uint16_t)(value))
#define WIRE_RANGE_PREFETCHED(value)  ((uint16_t)((value) >> 16))
#define WIRE_RANGE_ACCESSED_BY(value) ((uint32_t)((value) >> 32) & 0x1ffff)
#define WIRE_RANGE_READ_MOSTLY	      (1ull << 63)
#define WIRE_RANGE_BITS		      (0x1ffffffffffffull | WIRE_RANGE_READ_MOSTLY)

/*
 * Devices are the driver's ordinals. For host memory, device and source_device name the
 * context that does the work. Unused fields must be zero.
 */
struct wire_request {
	uint64_t id; /* never zero, unique among requests under way */
	uint32_t op;
	uint32_t flags;
	uint32_t device;
	uint32_t source_device; /* COPY */
	uint32_t stream;	/* 0: any; else a user stream of device */
	int32_t priority;	/* STREAM_CREATE */
	uint64_t address;
	uint64_t source;  /* COPY; of the file: SAVE, RESTORE, FILE_* */
	uint64_t length;  /* bytes; never zero in operations that use it */
	uint64_t offset;  /* READ, WRITE, FILE_LOAD, FILE_SAVE: of the staging area */
	uint64_t pattern; /* FILL: the low pattern_size bytes */
	uint32_t pattern_size;
	uint32_t module;   /* for MODULE_*, FUNCTION_ATTRIBUTES, LAUNCH: never zero */
	uint32_t function; /* the function's number; MODULE_FUNCTIONS: the first number */
	uint32_t location; /* PREFETCH, ADVISE: see gpumem/location.h */
	uint32_t advice;   /* ADVISE */
	uint32_t payer;	   /* READ, WRITE, COPY, FILL: payers take turns; uid */
};

#define WIRE_LAST_WORDS 0 /* instead of the id of a request; all other fields: none */

struct wire_reply {
	uint64_t id;
	int32_t error;	/* 0 or a positive errno */
	int32_t call;	/* row of the failed call in the driver's X-list; -1: none */
	int32_t result; /* the CUresult of that call */
	uint32_t reserved;
	uint64_t value[2];
};

_Static_assert(sizeof(struct wire_request) == 96, "no padding on the wire");
_Static_assert(sizeof(struct wire_reply) == 40, "no padding on the wire");
_Static_assert(sizeof(struct wire_launch) == 56, "no padding on the wire");
_Static_assert(sizeof(struct wire_file_told) == 32, "no padding on the wire");
_Static_assert(sizeof(struct wire_piece) == 24, "no padding on the wire");

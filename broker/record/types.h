/* SPDX-License-Identifier: MIT */
/*
 * Records of objects, for the next broker.
 *
 * A record is enough to make its object again. Fields are only ever appended: a loader
 * knows the size of the writer's records, and fields unknown to an older writer are 0. A
 * reference is an index, 0 for none. Owners are named by uid.
 */
#pragma once

#include <stdint.h>

#define RECORD_NAME_BYTES   256
#define RECORD_REASON_BYTES 128
/* There are most of these. */
#define RECORD_ALLOCATION_NAME_BYTES 72
#define RECORD_DEVICES		     16
#define RECORD_LIMITS		     32
#define RECORD_AGAIN		     64
#define RECORD_EVENTS		     1024 /* the newest ones are kept */
#define RECORD_EVENT_BYTES	     512
#define RECORD_TEXT_BYTES	     52
#define RECORD_METER_WORDS	     1536
#define RECORD_TIMES_WORDS	     32
#define RECORD_OUTPUT_BYTES	     (65536 + 4096)

enum record_type {
	RECORD_BROKER, /* one */
	RECORD_OWNER,
	RECORD_BLOCK,
	RECORD_ALLOCATION,
	RECORD_LEASE,
	RECORD_FOLDER, /* of allocations, or of modules */
	RECORD_EVENT,
	RECORD_FAILURE,
	RECORD_TEXT,
	RECORD_METER,
	RECORD_MODULE,
	RECORD_IMAGE,
	RECORD_FUNCTION,
	RECORD_LIFETIME,
	RECORD_STREAM,
	RECORD_TENSORS,
	RECORD_ORIGIN,
	RECORD_TIMES,
	RECORD_OUTPUT,
	RECORD_PROCESS,
	N_RECORD_TYPES,
};

enum record_state {
	RECORD_FREE,
	RECORD_LIVE,
};

/* First in every record. The generation goes up when the record is freed. */
struct record_head {
	uint32_t state;
	uint32_t generation;
};

struct limits_record {
	uint64_t given;		     /* a bit each */
	uint64_t max[RECORD_LIMITS]; /* 0 where none is given */
};

struct broker_record {
	struct record_head head;
	uint64_t next_id[4]; /* of allocations, streams, modules, folders */
	uint64_t peak_bytes;
	uint32_t n_devices;
	uint32_t init_bytes; /* of the kernel's INIT request */
	char uuid[RECORD_DEVICES][48];
	uint8_t init[256];
	struct limits_record limits; /* of owners without limits of their own */
	uint64_t restarts;	     /* of workers */
	uint64_t mover_restarts;
	uint64_t n_again;	      /* requests under way at a death and tried again */
	uint64_t again[RECORD_AGAIN]; /* numbers of the last of them */
	uint64_t next_function_id;
	uint64_t last_backing; /* the last of the kernel's numbers that was noted */
};

struct owner_record {
	struct record_head head;
	uint32_t uid, gid;
	uint32_t slot, slot_generation; /* of the token, in node ids */
	uint64_t peak_bytes;
	uint64_t restarts;
	struct limits_record limits;
	uint64_t n_refused[RECORD_LIMITS];
	uint64_t peak[RECORD_LIMITS];
	uint32_t meter;	     /* 0: shared with others */
	uint32_t own_limits; /* a bit each: of the limits, those of the owner alone */
	uint32_t n_barren;   /* model/owner.h, like the next */
	uint32_t reserved;
	char end_reason[RECORD_REASON_BYTES];
};

/* The memory is a descriptor of the keeper, under the block's index and generation. */
struct block_record {
	struct record_head head;
	uint64_t address;
	uint64_t size;
	uint32_t place;
	uint32_t guard;
	uint32_t cells; /* a slab of cells: 1 and the class of their size; else 0 */
	uint32_t payer; /* uid charged for the descriptor of a slab or of freed memory */
	/* The kernel's number of the memory, where files of it can be mapped; 0: none. */
	uint32_t backing;
	uint32_t freed; /* 1: host memory without an allocation, the payer's charge */
};

enum allocation_record_flag {
	RECORD_UNZEROED = 1 << 0, /* zeros are owed from zeros_from on */
	RECORD_MAP_READERS = 1 << 1,
	RECORD_SEALED = 1 << 2,
	RECORD_FREED = 1 << 3, /* without a name; leases may keep the memory */
	RECORD_REPLACED = 1 << 4,
	RECORD_DESCRIPTOR = 1 << 5, /* the owner is charged for a descriptor, and with a
				       shared block for the memory of one of its own */
	RECORD_UNTIL = 1 << 6,	    /* had `until=` */
	RECORD_NEVER_LENT = 1 << 7, /* the opposite of struct allocation's `lent` */
	RECORD_LENT_TO_OTHERS = 1 << 8,
	RECORD_WITHDRAWING =
		1 << 9, /* workers that have lost the right may still have it */
};

struct allocation_record {
	struct record_head head;
	uint64_t id;
	uint64_t size;
	uint64_t address;
	int64_t created_s;
	int64_t written_s;
	uint64_t zeros_from;
	uint32_t written_ns;
	uint32_t pointer_generation;
	uint32_t slot, slot_generation; /* of the token, in node ids */
	uint32_t owner;			/* uid */
	uint32_t gid;
	uint32_t block; /* 0: the memory was a worker's */
	uint32_t cell;
	uint32_t flags;
	uint16_t mode;
	uint8_t kind;
	uint8_t device;
	uint8_t guard;
	uint32_t block_generation;
	uint32_t folder; /* 0: none */
	uint32_t tag;	 /* a text; 0: none */
	char name[RECORD_ALLOCATION_NAME_BYTES];
	int64_t used_s;
	uint32_t used_ns;
	uint32_t used_reserved;
	uint32_t lifetime; /* 0: none that outlives the broker */
	uint32_t tensors;  /* 0: none */
	uint32_t place;	   /* 1 and the place in listings of its folder; 0: any */
	uint32_t origin;   /* 0: unknown */
};

struct folder_record {
	struct record_head head;
	uint64_t id;
	int64_t changed_s;
	uint32_t changed_ns;
	uint32_t slot, slot_generation; /* of the token, in node ids */
	uint32_t folder;		/* the folder above; 0: none */
	uint32_t owner;			/* uid */
	uint32_t gid;
	uint32_t mode;
	uint32_t of_modules; /* 1: of modules, 0: of allocations */
	char name[RECORD_NAME_BYTES];
	uint32_t module; /* that became this folder; 0: none */
	uint32_t place;	 /* as an allocation's */
};

struct lease_record {
	struct record_head head;
	uint64_t id;
	int64_t since_s;
	uint64_t file; /* the number of the open file */
	uint32_t allocation;
	uint32_t uid;
	uint32_t gid;
	int32_t pid;
	uint64_t unique; /* number of the open request */
	uint8_t write;
	uint8_t granted;
	uint8_t secret[16];
	uint8_t read; /* since the last change of its text */
	uint8_t held;
	uint8_t reserved[4];
	uint64_t poll;	      /* the kernel's number of the file for poll(2); 0: none */
	uint64_t node, inode; /* of the open file (memops/lease_file.h); 0: unknown */
};

/*
 * A line of `events`, at the index 1 + (number - 1) % RECORD_EVENTS. The records are made
 * at the start, live, and written in place.
 */
struct event_record {
	struct record_head head;
	uint64_t number; /* from 1; 0: none, or being written */
	uint32_t length;
	uint32_t reserved;
	char line[RECORD_EVENT_BYTES]; /* with its newline */
};

/* A line of `errors`. */
struct failure_record {
	struct record_head head;
	uint64_t number; /* from 1, of all users' */
	uint32_t uid;
	uint32_t text;
};

/* Up to RECORD_TEXT_BYTES of a text (record/texts.h); zeros follow its end. */
struct text_record {
	struct record_head head;
	uint32_t next; /* 0: the last */
	char bytes[RECORD_TEXT_BYTES];
};

/* Figures for `metrics`, counted in place (model/meter.h); the first: a shared one. */
struct meter_record {
	struct record_head head;
	uint32_t uid; /* UINT32_MAX: shared */
	uint32_t reserved;
	uint64_t words[RECORD_METER_WORDS];
};

struct module_record {
	struct record_head head;
	uint64_t id;
	int64_t created_s;
	int64_t loaded_s;
	uint64_t settled;
	uint32_t slot, slot_generation; /* of the token, in node ids */
	uint32_t folder; /* the folder above, 0: none; without a name: what it became */
	uint32_t place;	 /* as an allocation's */
	uint32_t owner;	 /* uid */
	uint32_t gid;
	uint32_t mode;
	uint32_t folder_mode;
	uint32_t device;
	int32_t failed;
	uint32_t image; /* 0: none */
	uint32_t log;	/* record/texts.h; 0: none */
	char name[RECORD_NAME_BYTES];
};

/* The bytes are a descriptor of the keeper, under the image's index and generation. */
struct image_record {
	struct record_head head;
	uint64_t size;
	uint64_t serial;
	uint32_t module; /* the module, also before it shows the image */
	uint32_t device;
	uint32_t enumerated;
	uint32_t reserved;
};

struct function_record {
	struct record_head head;
	uint64_t id;
	uint32_t slot, slot_generation; /* of the token, in node ids */
	uint32_t image;
	uint32_t index;
	uint32_t text; /* OFFSET SIZE of each parameter, then `=` and the name */
	uint32_t n_params;
	uint32_t has_params;
	uint32_t reserved;
};

/* A process or a cgroup. The keeper has a descriptor of either. */
struct lifetime_record {
	struct record_head head;
	uint32_t kind; /* 1: process, 2: cgroup */
	uint32_t uid, gid;
	uint32_t key; /* record/texts.h */
};

enum stream_record_flag {
	RECORD_DEFAULT = 1 << 0,   /* the owner's, of a device */
	RECORD_USED = 1 << 1,	   /* device and priority are fixed */
	RECORD_UNAWAITED = 1 << 2, /* work is under way without a waiter */
	RECORD_STREAM_FLAGS = (1 << 3) - 1,
};

struct stream_record {
	struct record_head head;
	uint64_t id;
	int64_t created_s;
	uint32_t slot, slot_generation; /* of the token, in node ids */
	uint32_t flags;
	int32_t failed;
	uint32_t failure; /* its sentence, record/texts.h; 0: none */
	uint32_t owner;	  /* uid */
	uint32_t device;
	int32_t priority;
	char name[RECORD_NAME_BYTES];
};

/* The text is a descriptor of the keeper, under this index and generation. */
struct tensors_record {
	struct record_head head;
	uint64_t size;
	uint32_t payer; /* uid */
	uint32_t reserved;
};

/* A cgroup that asked for allocations of an owner. */
struct origin_record {
	struct record_head head;
	uint32_t owner;	 /* uid */
	uint32_t cgroup; /* record/texts.h */
};

/* Times of the lines of a verb, counted in place (api/line_times.h). */
struct times_record {
	struct record_head head;
	char verb[24];
	uint64_t words[RECORD_TIMES_WORDS];
};

/*
 * Bytes printed by an owner's kernels, written in place: byte N is at N modulo the size
 * of the ring.
 */
struct output_record {
	struct record_head head;
	uint32_t owner; /* uid */
	uint32_t reserved;
	uint64_t n_written;
	char bytes[RECORD_OUTPUT_BYTES];
};

/*
 * A worker's process. The keeper has a pidfd of it; the channel writes `busy` in place.
 * Of a broker that has died, a busy process may still write memory until it has ended
 * (process/orphans.h).
 */
struct process_record {
	struct record_head head;
	uint64_t reserved; /* by older programs: when the process began */
	uint32_t pid;
	uint32_t owner; /* uid */
	uint32_t mover; /* 1: works for all users */
	uint32_t busy;	/* 1: has requests that are not answered */
};

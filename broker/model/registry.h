/* SPDX-License-Identifier: MIT */
/*
 * The registry: all objects, by name and by token.
 *
 * The registry owns the objects and knows nothing of files and GPUs. A field that points
 * to another layer's struct belongs to that layer. `lock` guards everything and is held
 * only for moments, never during a call to a driver, a worker or a callback. Outside the
 * registry objects are known by tokens.
 *
 * The states of an allocation are MAKING (the name is taken, the allocation invisible),
 * then LIVE, then FREED (out of the tree; the struct stays until its last use has ended
 * and its memory is given back). LIVE changes to LOST when the process that held the
 * bytes dies. `busy` is LIVE with works under way.
 */
#pragma once

#include <pthread.h>
#include <sys/types.h>
#include <time.h>

#include <uthash.h>

#include "base/refusal.h"
#include "model/handle_table.h"
#include "model/managed_ranges.h"
#include "model/module.h"
#include "model/object.h"
#include "model/order.h"
#include "model/shares.h"

#define NAME_MAX_LENGTH	 64
#define DEVICES_MAX	 16
#define STREAMS_OF_OWNER 4096

struct caller;

struct block;	   /* broker/memory */
struct chunk_pool; /* broker/memory */
struct worker;	   /* broker/process */
struct ahead;	   /* broker/memops */
struct move;	   /* broker/memops */
struct output;	   /* broker/process */
struct lease;	   /* broker/memops */

enum allocation_kind {
	KIND_DEVICE,
	KIND_DIRECT,
	KIND_ASYNC,
	KIND_MANAGED,
	KIND_HOST,
	N_KINDS,
};

enum allocation_state {
	ALLOCATION_MAKING,
	ALLOCATION_LIVE,
	ALLOCATION_LOST,
	ALLOCATION_FREED,
};

/*
 * Bytes of leased allocations, and how many of these bytes belong to freed allocations.
 */
struct lease_totals {
	uint64_t bytes, freed_bytes;
};

struct allocation {
	/* Plain values, enough to make the allocation again. */
	uint64_t id;
	uint64_t size;
	uint64_t address;
	int64_t created_s;
	int64_t written_s; /* last write; 0: never */
	uint32_t written_ns;
	uint64_t n_written;	     /* number of accepted writes */
	uint32_t pointer_generation; /* goes up when earlier pointers become invalid */
	gid_t gid;
	uint16_t mode; /* rw bits */
	uint8_t kind;  /* enum allocation_kind */
	uint8_t device;
	uint8_t state;	 /* enum allocation_state */
	bool zeroed : 1; /* reads as zeros or as written; else to be zeroed first */
	bool map_readers : 1; /* readers, too, may lease device memory */
	char *name;
	char *tag;		 /* NULL: none */
	struct managed *managed; /* kind managed; else NULL */

	/* The current place of the memory. */
	struct owner *owner;
	struct block *block;   /* durable and host memory */
	bool has_descriptor;   /* charged to the owner, together with the block */
	struct owner *lender;  /* owner charged for the descriptor that leases copy; NULL:
				  none */
	uint32_t cell;	       /* in a shared block */
	uint32_t worker_epoch; /* not durable: epoch of the worker process that holds the
				  memory */
	struct stream *stream; /* async: the stream of the allocation; managed: the stream
				  of its attachment; NULL: none. Counted there */
	uint32_t n_zeroings;   /* number of zeroings begun */
	uint32_t zeroing_failed; /* number of the last failed zeroing; 0: none */
	char *zeroing_failure;	 /* its sentence */
	bool restoring; /* another process of the worker is making the allocation again */
	struct work *parked; /* works that wait for the end of restoring */
	char *lost_why; /* LOST: the end of the worker ("was reset"); NULL: unknown */
	int32_t write_error; /* errno of a failed write that had been answered early */

	struct lease *leases; /* memops/lease.h */
	uint32_t n_leases, n_write_leases;
	struct work *release; /* FREED: the op that frees it */
	bool release_parked;  /* that op waits for the last lease */

	/* Links and caches. */
	uint32_t slot, slot_generation;
	uint32_t n_works;
	uint32_t n_unasked;   /* how many of them nobody asked for: reading ahead */
	struct use *uses;     /* uses that later works may have to wait for */
	struct use *all_uses; /* uses of all works in the order, oldest first */
	struct move *move;    /* opens the allocation; broker/memops */
	uint64_t n_writes;    /* number of works that write, ever queued */
	uint64_t read_next;   /* end of the last read of data */
	struct ahead *ahead;  /* reading ahead; broker/memops */
	UT_hash_handle hh;
};

struct stream {
	uint64_t id;
	char *name;
	struct owner *owner;
	uint32_t device;
	int32_t priority;
	int64_t created_s;
	bool is_default;     /* the owner's default stream, not in the table of names */
	bool used;	     /* device and priority are fixed */
	uint32_t wire_id;    /* the worker's number for the stream */
	uint32_t made_epoch; /* epoch of the worker process that knows the stream; 0: none
				yet */
	uint32_t n_allocations; /* allocations made on the stream or attached */
	int32_t failed; /* errno of the first failure since the last synchronize */
	char *failure;	/* sentence of that failure */

	uint32_t slot, slot_generation;
	uint32_t n_works;
	struct work *last;
	uint32_t n_sent;   /* kernels in the GPU's queue */
	struct work *held; /* kernel that waits for room in this queue */
	UT_hash_handle hh;
};

struct owner {
	uid_t uid;
	gid_t gid;
	uint64_t bytes, peak_bytes;
	uint64_t n_allocations;
	uint64_t restarts;
	struct shares shares;
	uint64_t n_in_worker;  /* allocations in the owner's worker */
	struct worker *worker; /* NULL until the first need */
	uint64_t n_leases;     /* open leases of the owner's programs, of any memory */
	struct lease_totals leased; /* of the owner's allocations */
	struct output *output; /* of the owner's kernels; lives as long as the worker */
	struct chunk_pool *pool;   /* of small device allocations */
	struct stream *defaults[DEVICES_MAX];
	uint64_t wire_streams[STREAMS_OF_OWNER / 64]; /* wire ids in use, a bit each */

	uint32_t slot, slot_generation;
	UT_hash_handle hh;
};

/* Limits of a launch on a device. */
struct launch_limits {
	uint32_t grid[3], block[3];
	uint32_t threads; /* in a block */
	uint32_t shared;  /* dynamic shared memory of a block, in bytes */
	bool cooperative, cluster;
};

struct device {
	uint32_t index;
	char name[256];
	char uuid[48];
	char pci_bus_id[20];
	char driver[16];
	int major, minor;
	bool has_vmm; /* has virtual memory management with exportable handles */
	bool has_managed;
	bool has_concurrent; /* GPU and CPU may access managed memory at the same time */
	uint32_t peers;	     /* peer devices with accessible memory, a bit each */
	struct launch_limits limits;
	uint64_t memory_total;
	uint32_t slot, slot_generation;
};

#define FREED_KEPT 1024

/* An allocation freed recently, to name it in a failure through an old descriptor. */
struct freed {
	struct token token;
	uint64_t id;
	char name[NAME_MAX_LENGTH + 1];
};

struct registry {
	pthread_mutex_t lock;
	bool shutting_down;  /* nothing new is accepted */
	uint64_t n_busy;     /* ops and others that must end before the broker */
	pthread_cond_t idle; /* n_busy, or the number of worker processes, reached zero */
	struct freed freed[FREED_KEPT]; /* a ring */
	unsigned int n_freed;
	struct slots allocations, streams, owners, devices, modules, functions;
	struct device *device_at[DEVICES_MAX]; /* by index; set at the start */
	unsigned int n_devices;
	struct allocation *allocations_by_name;
	struct stream *streams_by_name;
	struct module *modules_by_name;
	struct owner *owners_by_uid;
	uint64_t next_id[3]; /* of allocations, streams, modules */
	uint64_t n_functions_made;
	uint32_t n_wire_images; /* wire ids of images, ever given */

	/* totals */
	uint64_t n_allocations, bytes, peak_bytes;
	uint64_t n_streams;
	uint64_t n_modules;
	uint64_t bytes_by_kind[N_KINDS];
	uint64_t n_allocations_on[DEVICES_MAX]; /* not host memory */
	uint64_t managed_on[DEVICES_MAX];	/* bytes of managed allocations */
	struct managed_totals managed; /* of visible allocations that are not lost */
	struct lease_totals leased;
	struct lease_totals leased_on[DEVICES_MAX]; /* not host memory */
};

const char *kind_name(enum allocation_kind kind);
/* Returns: a kind; -EINVAL. */
int kind_find(const char *name);
/* Durable memory belongs to the broker and survives the processes that use it. */
bool kind_is_durable(enum allocation_kind kind);
/*
 * Whether the memory is on a device; managed and host memory is reachable from all
 * devices.
 */
bool kind_has_device(enum allocation_kind kind);

/* Returns: 0; -EINVAL; -ENAMETOOLONG. */
int name_check(const char *name);

void registry_init(struct registry *registry);
/* Counts down n_busy. */
void registry_less_busy(struct registry *registry);

void registry_deinit(struct registry *registry); /* asserts that only owners are left */

/* ---- allocations ---- */

/*
 * Makes an allocation in state MAKING and takes its name.
 * Returns: 0; -EEXIST; -ENOMEM; -EDQUOT when the owner's share is used up.
 */
int allocation_new(struct allocation **ret_allocation, struct registry *registry,
		   const char *name, uint64_t size, struct owner *owner);

/* MAKING to LIVE: the allocation becomes visible and is counted. */
void allocation_publish(struct registry *registry, struct allocation *allocation);

/*
 * LIVE to LOST, after the process that held the bytes died; why as in "the worker WHY".
 */
void allocation_lose(struct registry *registry, struct allocation *allocation,
		     const char *why);

/* Changes the allocation's stream; NULL: no stream. */
void allocation_set_stream(struct allocation *allocation, struct stream *stream);

/* Removes the allocation from the tree and the names; its bytes remain counted. */
void allocation_withdraw(struct registry *registry, struct allocation *allocation);

/*
 * Frees the allocation and subtracts it from the totals. Its memory is given back
 * already.
 */
struct allocation *allocation_free(struct registry *registry,
				   struct allocation *allocation);

/* Finds an allocation in any state. NULL: the name is free. */
struct allocation *allocation_find(const struct registry *registry, const char *name);
struct allocation *allocation_get(const struct registry *registry, uint32_t slot,
				  uint32_t generation);

/* Returns: 0; -EEXIST; -ENOMEM. */
int allocation_rename(struct registry *registry, struct allocation *allocation,
		      const char *name);

/*
 * Keeps the name for registry_find_freed(), until FREED_KEPT later ones have been freed.
 */
void registry_note_freed(struct registry *registry, const struct allocation *allocation);

/* NULL: not known, or freed too long ago. */
const struct freed *registry_find_freed(const struct registry *registry,
					struct token token);

/* Sets the time of the last write, shown as last_write and mtime. */
void allocation_written(struct allocation *allocation);

/* Refuses an operation on a lost allocation. Returns: -ESTALE. */
int refuse_lost(struct refusal *refusal, const struct allocation *allocation);

/* ---- owners ---- */

/* Finds or makes an owner. NULL: no memory. */
struct owner *owner_get(struct registry *registry, uid_t uid, gid_t gid);

/* Kernels in the GPU's queues, on all of the owner's streams. */
uint32_t owner_n_sent(const struct registry *registry, const struct owner *owner);

/* ---- streams ---- */

/* Returns: 0; -EEXIST; -ENOMEM; -ENFILE when the owner has too many. */
int stream_new(struct stream **ret_stream, struct registry *registry, const char *name,
	       struct owner *owner, uint32_t device, bool is_default);
struct stream *stream_free(struct registry *registry, struct stream *stream);
struct stream *stream_find(const struct registry *registry, const char *name);

/* The owner's default stream on a device, made at the first use. NULL: no memory. */
struct stream *owner_default_stream(struct registry *registry, struct owner *owner,
				    uint32_t device);

/* Whether the name belongs to default streams: `default`, `default.N`. */
bool stream_name_is_default(const char *name);

/* The caller's default stream: `default` on device 0, `default.N` on device N. */
struct stream *stream_find_default(struct registry *registry, const char *name,
				   const struct caller *caller);

/*
 * A stream whose name tells the device: a stream made by a user, or the caller's
 * `default.N`.
 * NULL: not found; also for plain `default`.
 */
struct stream *stream_find_named(struct registry *registry, const char *name,
				 const struct caller *caller);

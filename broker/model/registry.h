/* SPDX-License-Identifier: MIT */
/*
 * The registry: every object there is, by name and by token.
 *
 * It owns the objects and knows neither files nor GPUs: what a field of another layer
 * points to is that layer's. One lock guards it all (`lock`); it is held for moments,
 * never across a call to a driver, a worker or a callback. Outside, objects are known by
 * tokens.
 *
 * An allocation goes MAKING (its name is taken, nobody sees it) -> LIVE -> FREED (out of
 * the tree; the struct stays until its last use is done and its memory given back), or
 * LIVE -> LOST when what held its bytes has died. `busy` is LIVE with works under way.
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
struct failures;   /* journal.h */
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

/* Bytes of allocations that have leases; of them, those of allocations that are freed. */
struct lease_totals {
	uint64_t bytes, freed_bytes;
};

struct allocation {
	/* What the next broker would have to know: plain values. */
	uint64_t id;
	uint64_t size;
	uint64_t address;
	int64_t created_s;
	int64_t written_s; /* last write; 0: never */
	uint32_t written_ns;
	uint64_t n_written; /* writes that have been accepted */
	uint32_t
		pointer_generation; /* up when a pointer taken before is no longer good */
	gid_t gid;
	uint16_t mode; /* rw bits */
	uint8_t kind;  /* enum allocation_kind */
	uint8_t device;
	uint8_t state;	 /* enum allocation_state */
	bool zeroed : 1; /* reads as zeros or as written; else must be filled first */
	bool until_close : 1;
	bool map_readers : 1; /* who may read may lease device memory, not only writers */
	char *name;
	char *tag;		 /* NULL: none */
	struct managed *managed; /* kind managed; else NULL */

	/* Where it is now. */
	struct owner *owner;
	struct block *block;	 /* durable and host memory */
	bool has_descriptor;	 /* a share of its owner's, with the block */
	struct owner *lender;	 /* who pays for the one that leases copy; NULL: none */
	uint32_t cell;		 /* of a shared block */
	uint32_t worker_epoch;	 /* not durable: the worker it lives in */
	struct stream *stream;	 /* async: that it was made on; managed: that it is
				    attached to; NULL: none. Counted there */
	uint32_t n_zeroings;	 /* that were begun */
	uint32_t zeroing_failed; /* the last one that failed; 0: none did */
	char *zeroing_failure;	 /* its sentence */
	bool restoring;		 /* it is being made anew in another run of its worker */
	struct work *parked;	 /* works that wait for that */
	char *lost_why; /* LOST: "was reset", of the worker that held it; NULL: unknown */
	int32_t write_error; /* of a write answered before it was done; errno */

	struct lease *leases; /* broker/command/lease.h */
	uint32_t n_leases, n_write_leases;
	struct work *release; /* FREED: its end, which waits for the last lease */

	/* Links and caches. */
	uint32_t slot, slot_generation;
	uint32_t n_works;
	uint32_t n_unasked;   /* of them, nobody's: reading ahead */
	struct use *uses;     /* that later works may have to wait for */
	struct use *all_uses; /* of all works in the order, the oldest first */
	struct move *move;    /* that is to open it; broker/memops */
	uint64_t n_writes;    /* works that write it, ever queued */
	uint64_t read_next;   /* where the last read of data ended */
	struct ahead *ahead;  /* what is read before it is asked for; broker/memops */
	UT_hash_handle hh;
};

struct stream {
	uint64_t id;
	char *name;
	struct owner *owner;
	uint32_t device;
	int32_t priority;
	int64_t created_s;
	bool is_default;	/* of its owner, not in the table of names */
	bool used;		/* device and priority stand */
	uint32_t wire_id;	/* what the worker calls it */
	uint32_t made_epoch;	/* of the worker that has it; 0: none yet */
	uint32_t n_allocations; /* made on it or attached to it */
	int32_t failed; /* errno of the first failure since the last synchronize */
	char *failure;	/* its sentence */

	uint32_t slot, slot_generation;
	uint32_t n_works;
	struct work *last;
	uint32_t n_sent;   /* kernels in the GPU's queue */
	struct work *held; /* one that waits for room there */
	UT_hash_handle hh;
};

struct owner {
	uid_t uid;
	gid_t gid;
	uint64_t bytes, peak_bytes;
	uint64_t n_allocations;
	uint64_t restarts;
	struct shares shares;
	uint64_t n_in_worker;  /* allocations that live in his worker */
	struct worker *worker; /* NULL until the first need */
	uint64_t n_leases;     /* that the owner's programs have open, of any memory */
	struct lease_totals leased; /* of the owner's allocations */
	struct output *output;	    /* what his kernels print; with the worker */
	struct failures *failures;  /* NULL until the first one */
	struct chunk_pool *pool;    /* of small device allocations */
	struct stream *defaults[DEVICES_MAX];
	uint64_t wire_streams[STREAMS_OF_OWNER / 64]; /* wire ids in use, a bit each */

	uint32_t slot, slot_generation;
	UT_hash_handle hh;
};

/* What one launch on a device may have. */
struct launch_limits {
	uint32_t grid[3], block[3];
	uint32_t threads; /* of a block */
	uint32_t shared;  /* bytes of a block, where a kernel asks for them */
	bool cooperative, cluster;
};

struct device {
	uint32_t index;
	char name[256];
	char uuid[48];
	char pci_bus_id[20];
	char driver[16];
	int major, minor;
	bool has_vmm; /* virtual memory management, handles as descriptors */
	bool has_managed;
	bool has_concurrent; /* access to managed memory, beside the CPU's */
	uint32_t peers;	     /* devices whose memory it reaches, a bit each */
	struct launch_limits limits;
	uint64_t memory_total;
	uint32_t slot, slot_generation;
};

#define FREED_KEPT 1024

/* What has been freed lately, so that a failure through an old descriptor can name it. */
struct freed {
	struct token token;
	uint64_t id;
	char name[NAME_MAX_LENGTH + 1];
};

struct registry {
	pthread_mutex_t lock;
	bool shutting_down;  /* nothing new is accepted */
	uint64_t n_busy;     /* ops and whatever else the end of the broker waits for */
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
	uint64_t next_id[3]; /* allocation, stream, module */
	uint64_t n_functions_made;
	uint32_t n_wire_images; /* what workers call images, ever dealt */

	/* totals */
	uint64_t n_allocations, bytes, peak_bytes;
	uint64_t n_streams;
	uint64_t n_modules;
	uint64_t bytes_by_kind[N_KINDS];
	uint64_t n_allocations_on[DEVICES_MAX]; /* not host memory */
	uint64_t managed_on[DEVICES_MAX];	/* bytes of kind managed made there */
	struct managed_totals managed;		/* of what is in the tree and not lost */
	struct lease_totals leased;
	struct lease_totals leased_on[DEVICES_MAX]; /* not host memory */
};

const char *kind_name(enum allocation_kind kind);
/* Returns: a kind; -EINVAL. */
int kind_find(const char *name);
/* Durable memory: the broker's own, kept whatever its users do. */
bool kind_is_durable(enum allocation_kind kind);
/* Memory of one device; the rest is in reach of all. */
bool kind_has_device(enum allocation_kind kind);

/* Returns: 0; -EINVAL; -ENAMETOOLONG. */
int name_check(const char *name);

void registry_init(struct registry *registry);
/* Something that was counted in n_busy has ended. */
void registry_less_busy(struct registry *registry);

void registry_deinit(
	struct registry *registry); /* asserts that it is empty but for owners */

/* ---- allocations ---- */

/*
 * A new allocation in state MAKING whose name is taken from now on.
 * Returns: 0; -EEXIST; -ENOMEM; -EDQUOT when the owner has as many as one may.
 */
int allocation_new(struct allocation **ret_allocation, struct registry *registry,
		   const char *name, uint64_t size, struct owner *owner);

/* MAKING -> LIVE: seen from now on, and counted. */
void allocation_publish(struct registry *registry, struct allocation *allocation);

/* What held its bytes has died, and why, as in "the worker WHY": LIVE -> LOST. */
void allocation_lose(struct registry *registry, struct allocation *allocation,
		     const char *why);

/* Has it belong to another stream, NULL: to none. */
void allocation_set_stream(struct allocation *allocation, struct stream *stream);

/* Out of the tree and the names; its bytes stay counted. */
void allocation_withdraw(struct registry *registry, struct allocation *allocation);

/* Frees it and takes it out of the totals. Its memory has been given back. */
struct allocation *allocation_free(struct registry *registry,
				   struct allocation *allocation);

/* Finds it whatever its state is, NULL: the name is free. */
struct allocation *allocation_find(const struct registry *registry, const char *name);
struct allocation *allocation_get(const struct registry *registry, uint32_t slot,
				  uint32_t generation);

/* Returns: 0; -EEXIST; -ENOMEM. */
int allocation_rename(struct registry *registry, struct allocation *allocation,
		      const char *name);

/* Notes the name, which registry_find_freed() tells for a while. */
void registry_note_freed(struct registry *registry, const struct allocation *allocation);

/* NULL: it is too long ago. */
const struct freed *registry_find_freed(const struct registry *registry,
					struct token token);

/* Notes that it is written now: its last_write and mtime. */
void allocation_written(struct allocation *allocation);

/* The sentence of what is lost, and why it is. Returns: -ESTALE. */
int refuse_lost(struct refusal *refusal, const struct allocation *allocation);

/* ---- owners ---- */

/* Finds or makes. NULL: no memory. */
struct owner *owner_get(struct registry *registry, uid_t uid, gid_t gid);

/* Kernels in the GPU's queues, on all of the owner's streams. */
uint32_t owner_n_sent(const struct registry *registry, const struct owner *owner);

/* ---- streams ---- */

/* Returns: 0; -EEXIST; -ENOMEM; -ENFILE when the owner has too many. */
int stream_new(struct stream **ret_stream, struct registry *registry, const char *name,
	       struct owner *owner, uint32_t device, bool is_default);
struct stream *stream_free(struct registry *registry, struct stream *stream);
struct stream *stream_find(const struct registry *registry, const char *name);

/* His `default` on a device, made when it is first wanted. NULL: no memory. */
struct stream *owner_default_stream(struct registry *registry, struct owner *owner,
				    uint32_t device);

/* Names of the owners' own streams: `default`, `default.N`. */
bool stream_name_is_default(const char *name);

/* `default` is that of device 0, `default.N` that of device N; the caller's own. */
struct stream *stream_find_default(struct registry *registry, const char *name,
				   const struct caller *caller);

/*
 * The stream of a name that says its device: one that was made, or the caller's own
 * `default.N`. NULL: none; also for `default` alone.
 */
struct stream *stream_find_named(struct registry *registry, const char *name,
				 const struct caller *caller);

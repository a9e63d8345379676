/* SPDX-License-Identifier: MIT */
/*
 * A worker is the mover, or belongs to an owner. The struct stays while processes come
 * and go. Each process has an epoch. A block or stream notes the epoch of the process
 * that has mapped or made it; the note is valid only for that epoch. So nothing has to be
 * undone when a process ends: the next process gets all announcements again.
 *
 * Workers start lazily: a request to a worker without a process starts one.
 */
#pragma once

#include <pthread.h>

#include "channel/staging.h"
#include "record/types.h"

struct allocation;
struct request;
struct block;
struct broker;
struct file_process;
struct image;
struct owner;
struct instance;
struct slot_waiter;
struct stream;
struct text;

struct worker {
	struct broker *broker;
	struct owner *owner; /* NULL: the mover */
	pthread_mutex_t lock;
	struct channel *channel;    /* NULL: no process */
	struct instance *instance;  /* of this channel */
	struct instance *instances; /* all instances whose process may still exist */
	uint32_t epoch; /* of the current process, counted from 1; 0 before the first */
	int64_t last_asked_ms; /* CLOCK_MONOTONIC */
	bool closed;	       /* must not be started any more */
	bool prepared;	       /* has its staging area; atomic */
	struct staging staging;
	struct slot_waiter *slot_waiters; /* works that wait for a slot, by payer */
	unsigned int n_readaheads; /* pieces read ahead or in flight; registry.lock */
	char end_reason[RECORD_REASON_BYTES]; /* of the last process that was not asked
						 to end */
	int end_error;		 /* errno for kernels running at its end; 0: EIO */
	uint32_t end_epoch;	 /* epoch of that process */
	uint32_t given_up_epoch; /* the last process ended by worker_abandon() */
	uint32_t wanted;	 /* bit mask of devices whose contexts are made at once;
				    registry.lock, like the next: */
	uint32_t used;		 /* devices used by any process that was given up */
	struct file_process *files; /* opens files for the owner; NULL: none takes
				       sessions. registry.lock */
	uint32_t n_resets;	    /* asked for by the owner or root; registry.lock */
	unsigned int n_guests; /* blocks of other owners that list this worker; atomic */
	unsigned int n_barren; /* consecutive processes that died without a reply */
	uint64_t revision;     /* memops/permissions.c; registry.lock */
};

/* Starts no process. */
void worker_init(struct worker *worker, struct broker *broker, struct owner *owner);
/*
 * Makes the staging area, if there is none yet. Returns: 0; -ENOMEM, or the error of
 * memfd_create or mmap.
 */
int worker_prepare(struct worker *worker);
int worker_prepare_locked(struct worker *worker);

/* The sentence when a worker can't be prepared or started for this reason; else NULL. */
const char *worker_lacks_means(int r);
/* The errno for users. */
int worker_start_errno(int r);

void worker_deinit(struct worker *worker);

/* Whether the worker has no process, and nobody waits for it. */
bool worker_is_unused(struct worker *worker);

/* The owner's worker, created on first use. NULL: no memory. */
struct worker *worker_of(struct broker *broker, struct owner *owner);

/* What an owner loses at once: for the warning. */
struct loss {
	unsigned int n;
	uint64_t bytes;
	char names[200]; /* of the first */
};

/*
 * Marks an allocation as lost with its process, and counts the loss. why completes "the
 * worker WHY". The allocation stays in the tree until it is freed. Under registry.lock.
 */
void worker_lose_allocation(struct broker *broker, struct allocation *allocation,
			    const char *why, struct loss *loss);

/* A warning about the owner's losses, if there are any; why as in "the worker WHY". */
void loss_tell(struct broker *broker, const struct owner *owner, const struct loss *loss,
	       const char *why);

/* The worker with access to an allocation: the mover, or its owner's. NULL: no memory. */
struct worker *allocation_worker(struct broker *broker,
				 const struct allocation *allocation);

struct needed_block {
	struct block *block;
	bool guest;    /* belongs to another owner */
	bool writable; /* mapped writable; else read-only */
	bool written;  /* the request writes: a read-only mapping won't do */
};

/* All a worker must have before it gets a request. */
struct worker_needs {
	struct needed_block *blocks;
	unsigned int n_blocks;
	struct stream *stream; /* NULL: none */
	struct image *image;   /* of a module; NULL: none */
	uint32_t epoch;	       /* not 0: only this process will do; it holds the memory */

	/*
	 * The request was sent, or refused without sending (id 0). Called only after
	 * worker_send() returned WORKER_HELD, with no lock held. May be NULL.
	 */
	void (*sent)(struct request *request);
};

#define WORKER_HELD 1

/*
 * Starts the worker if needed, announces unknown objects, and sends the request. If the
 * worker can't map or make an object, the request is not sent and gets that failure as
 * its reply.
 *
 * Returns: 0; WORKER_HELD when the request is sent once the worker has answered the
 * announcements; -ESTALE when the needed process has ended; -ESHUTDOWN, -EHOSTDOWN,
 * -ENOMEM, -EMFILE, -EAGAIN when the worker could not be started or the request not
 * queued; -EROFS when the worker may only read a block that the request writes. On errors
 * done is not called. *ret_epoch: the process that gets the request.
 */
int worker_send(struct worker *worker, const struct worker_needs *needs,
		struct request *request, uint32_t *ret_epoch);

/* The last process that had the block mapped, if it was not asked to unmap; 0: none. */
uint32_t worker_mapped_epoch(struct worker *worker, struct block *block, bool guest);

/*
 * Asks the worker to unmap a block of its owner, or of another owner (guest). Returns:
 * false when the block is not mapped there; done is not called then. *ret_epoch: the
 * process asked.
 */
bool worker_unmap(struct worker *worker, struct block *block, bool guest,
		  struct request *request, uint32_t *ret_epoch);

/* Whether the process of the worker has mapped a block of another owner. */
bool worker_is_guest(struct worker *worker, struct block *block);
/* The same, for reading only. */
bool worker_is_reader(struct worker *worker, struct block *block);

/*
 * An owner's worker whose processes die again and again without a reply is not started
 * any more (-EHOSTDOWN), by the next broker neither. worker_forgive(), under
 * registry.lock, starts the count again. So does any reply: worker_note_reply(), without
 * a lock.
 */
bool worker_has_failed(struct worker *worker);
void worker_forgive(struct worker *worker);
void worker_note_reply(struct worker *worker);

/* Whether the process with this epoch still runs. */
bool worker_runs(struct worker *worker, uint32_t epoch);

/* The pid; 0: no process. */
pid_t worker_pid(struct worker *worker);

/* Appends the pids of the worker's remaining processes, separated by commas. */
void worker_tell_left(struct worker *worker, struct text *text);

/* The reason of the last end, and the errno for kernels running then. */
void worker_end_reason(struct worker *worker, char *ret_reason, size_t size);
int worker_end_error(struct worker *worker, uint32_t epoch);

/*
 * Whether the process with this epoch is the last given up by the broker, rather than
 * ended by a defect of its own.
 */
bool worker_gave_up(struct worker *worker, uint32_t epoch);

/*
 * Detaches the process from the worker: the next request starts another. reason completes
 * "the worker REASON"; error is the errno for kernels that were running. For
 * checkpoint.c, which ends the process. wanted: its owner asked for the end. The channel
 * stays while registry.lock is held.
 *
 * Returns: the channel; NULL when the worker has no such process any more.
 */
struct channel *worker_abandon(struct worker *worker, uint32_t epoch, const char *reason,
			       int error, bool wanted);

/*
 * Requests a new process at once, in place of the one with that epoch, with a context on
 * each device where the old one had a stream. The housekeeper starts the process, and
 * checkpoint_run_ready() is called then. Under registry.lock.
 *
 * Returns: whether there are such devices.
 */
bool worker_want(struct worker *worker, uint32_t epoch);
/* Starts the worker with contexts on these devices (a bit mask). */
void worker_wake(struct worker *worker, uint32_t devices);

/* The epoch of the current process; 0: none. */
uint32_t worker_epoch(struct worker *worker);
/* The same of the last process, also if that one has ended or was given up. */
uint32_t worker_newest_epoch(struct worker *worker);

/*
 * Ends the process after idle_s without work. The caller knows that the process holds no
 * memory.
 */
void worker_end_idle(struct worker *worker, int64_t idle_s);

/*
 * Ends the worker for good: asks first, kills after seconds. The channel is freed by
 * instances_bury().
 */
void worker_close(struct worker *worker, unsigned int seconds);

/* Frees the instances that have ended, in the lanes of their users. */
void instances_bury(struct broker *broker);

/* Destroys a stream in the process that knows the stream, if still running. */
void worker_drop_stream(struct worker *worker, const struct stream *stream);

/* Kills a process that broke the protocol. reason completes "the worker REASON". */
void worker_condemn(struct worker *worker, uint32_t epoch, const char *reason);

/* Unloads an image from the process that knows the image, if still running. */
void worker_drop_image(struct worker *worker, const struct image *image);

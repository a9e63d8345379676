/* SPDX-License-Identifier: MIT */
/*
 * The broker as its view sees it: the only header of broker/ that fuse/ needs, with
 * attribute.h, control.h and verb.h beside it.
 *
 * Everything here may be called from any thread. Nothing blocks on a GPU or a worker:
 * what may have to wait takes a `struct wait` and answers through it, from another thread
 * or, when the answer is known at once, before the call returns. No lock of the broker is
 * held during a callback.
 *
 * Errors are negative errno values. Every failure that a user caused, here or in a
 * command, has been written to the journal with its sentence by the time it is returned,
 * except where a function says otherwise.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text.h"
#include "model/access.h"
#include "model/event_reader.h"
#include "model/object.h"

struct attribute;
struct broker;
struct waiter;

/* ---- objects ---- */

/*
 * in: the object whose folder it is, TOKEN_NONE for those in the root.
 *
 * Returns: 0; -ENOENT (not in the journal); -EAGAIN when a worker has to be asked:
 * broker_look_up(). The caller's own streams `default` are his.
 */
int broker_find(struct broker *broker, enum object_type type, struct token in,
		const char *name, const struct caller *caller, struct token *ret_token);

/* Appends where it stands in the mount, as `allocations/x`.
 * Returns: 0; -ESTALE when it has gone (not in the journal). */
int broker_path(struct broker *broker, enum object_type type, struct token token,
		struct text *text);

struct listing {
	struct token token;
	uint64_t next; /* cookie that continues behind this entry */
	char name[LISTED_NAME_MAX + 1];
};

/*
 * Lists objects behind cookie (0: from the start), at most n of them. What exists during
 * the whole of a listing is listed exactly once.
 *
 * Returns: how many were filled in; 0 at the end.
 */
size_t broker_list(struct broker *broker, enum object_type type, struct token in,
		   const struct caller *caller, uint64_t cookie, struct listing *entries,
		   size_t n);

struct object_stat {
	uint64_t id; /* never used again for another object of the type */
	uid_t uid;
	gid_t gid;
	mode_t mode;	   /* permission bits of its files: rw for user, group, other */
	uint64_t size;	   /* bytes of data or image; 0 for what has none */
	int64_t changed_s; /* last write, else creation; seconds and nanoseconds, UTC */
	uint32_t changed_ns;
	uint64_t n_changes; /* of an allocation: goes up when a write is accepted */
	bool host;    /* an allocation of kind host: its data can be mapped */
	bool managed; /* an allocation of kind managed: has all files of such */
};

/* Returns: 0; -ESTALE when it has gone (not in the journal). */
int broker_stat(struct broker *broker, enum object_type type, struct token token,
		struct object_stat *ret_stat);

/*
 * Appends what the attribute's file shows, newline included; attribute NULL is `status`,
 * all attributes the broker knows. Not for attributes flagged ATTRIBUTE_ASKED.
 *
 * Returns: 0; -ESTALE; -ENOMEM.
 */
int broker_show(struct broker *broker, enum object_type type, struct token token,
		const struct attribute *attribute, struct text *text);

/*
 * Writes an attribute flagged ATTRIBUTE_WRITABLE; the value may end in one newline.
 *
 * Returns: 0; -EINVAL; -EBUSY when it is in use already; -ENOENT; -EPERM; -ESTALE.
 */
int broker_store(struct broker *broker, enum object_type type, struct token token,
		 const struct attribute *attribute, const struct caller *caller,
		 const char *value, size_t length);

/* mkdir. Returns: 0; -EEXIST, -EINVAL, -ENAMETOOLONG, -EPERM (allocations), -ENOMEM. */
int broker_create(struct broker *broker, enum object_type type, const char *name,
		  const struct caller *caller, struct token *ret_token);

/*
 * rmdir: frees an allocation, destroys a stream, unloads a module. Never waits: memory
 * still in use is given back after its last use.
 *
 * Returns: 0; -ENOENT, -EBUSY (stream with work, module with launches), -EPERM, -ESTALE.
 */
int broker_remove(struct broker *broker, enum object_type type, const char *name,
		  const struct caller *caller);

/* Returns: 0; -ENOENT, -EEXIST, -EINVAL, -ENAMETOOLONG, -EPERM. Allocations only. */
int broker_rename(struct broker *broker, enum object_type type, const char *name,
		  const char *new_name, const struct caller *caller);

/* ---- what may wait ---- */

/*
 * An answer to come. Embedded in what waits; done is called exactly once: error is 0 or a
 * negative errno. For reads, bytes and length are the data, valid until done returns; for
 * writes and copies length is what was done. After done the wait is its owner's again.
 */
struct wait {
	void (*done)(struct wait *wait, int error, const void *bytes, size_t length);

	/* private to the broker */
	struct waiter *waiter;
};

/*
 * A signal wants the wait ended: a data transfer and synchronize answer -EINTR, a command
 * that is queued already answers success. May come at any time between the call that took
 * the wait and its done (the caller makes sure of that); may call done itself.
 */
void broker_interrupt(struct broker *broker, struct wait *wait);

/* ---- data ---- */

/*
 * Buffers shared with the mover, to read FUSE requests into: payloads land where the GPU
 * can take them. A buffer is `buffer_size` bytes of memory whose payload place (what
 * follows the 80 bytes of fuse_in_header and fuse_write_in) is page aligned when a
 * request is read to `memory`.
 */
struct buffer {
	int slot; /* -1: an ordinary one, made when the shared ones are all in use */
	uint8_t *memory;
	size_t size; /* at least 1 MiB + 4096 */
};

/* Returns: 0; -ENOMEM. */
int broker_buffer_get(struct broker *broker, struct buffer *ret_buffer);
void broker_buffer_put(struct broker *broker, struct buffer *buffer);

/* At most 1 MiB. Short at the end of the allocation, 0 bytes behind it. */
void broker_read(struct broker *broker, struct token token, const struct caller *caller,
		 uint64_t offset, size_t length, struct wait *wait);

/*
 * bytes stand in buffer; the broker takes the buffer (buffer->memory becomes NULL) when
 * it still needs it after the call. Errors: -ENOSPC past the end (a write that begins
 * inside is short), -ESTALE, -EIO, -EINTR.
 */
void broker_write(struct broker *broker, struct token token, const struct caller *caller,
		  uint64_t offset, const void *bytes, size_t length,
		  struct buffer *buffer, struct wait *wait);

/* Waits for writes that were answered before they reached the memory; their errors. */
void broker_sync(struct broker *broker, struct token token, const struct caller *caller,
		 struct wait *wait);

/* Zeros in [offset, offset + length), done on the GPU. -ENOSPC past the end. */
void broker_zero(struct broker *broker, struct token token, const struct caller *caller,
		 uint64_t offset, uint64_t length, struct wait *wait);

/* truncate(2): the size stays; zeros from size to the end. */
void broker_truncate(struct broker *broker, struct token token,
		     const struct caller *caller, uint64_t size, struct wait *wait);

/* Errors: only EACCES, ENOSPC, EIO, ESTALE, EINTR (see docs/filesystem.md: cp and the
 * kernel fall back in silence on others). length in done: bytes copied, 0 at the end. */
void broker_copy_range(struct broker *broker, struct token source, uint64_t source_offset,
		       struct token target, uint64_t target_offset, uint64_t length,
		       const struct caller *caller, struct wait *wait);

/*
 * The memfd behind an allocation of kind host, for mapping it; the caller closes it.
 * Returns: a descriptor; -ENODEV for other kinds; -ESTALE; -EMFILE.
 */
int broker_host_fd(struct broker *broker, struct token token);

/* chmod, chown, chgrp: mode (mode_t)-1, uid (uid_t)-1, gid (gid_t)-1 leave as it is. An
 * opening may move the allocation. Errors: -EPERM, -ESTALE, -ENOMEM, -EOPNOTSUPP. */
void broker_change(struct broker *broker, enum object_type type, struct token token,
		   const struct caller *caller, mode_t mode, uid_t uid, gid_t gid,
		   struct wait *wait);

/* An attribute flagged ATTRIBUTE_ASKED: done's bytes are the text of its file. */
void broker_ask(struct broker *broker, struct token token,
		const struct attribute *attribute, const struct caller *caller,
		struct wait *wait);

/*
 * What broker_find() could not tell: has the worker asked, so that it can. Errors:
 * -ENOENT, -ESTALE, -EINTR, -EIO, -ENOMEM (not in the journal).
 */
void broker_look_up(struct broker *broker, enum object_type type, struct token in,
		    const char *name, struct wait *wait);

/* For statfs: done's bytes are a struct broker_space. */
struct broker_space {
	uint64_t total; /* bytes, all devices */
	uint64_t free;
	uint64_t n_allocations;
};
void broker_space(struct broker *broker, struct wait *wait);

/* ---- leases ---- */

/*
 * A lease: another program's right to map an allocation of kind device or host. The view
 * makes one for each open descriptor of `lease` and ends it when the descriptor closes.
 * While an allocation has leases its memory stays where it is, freed or not.
 */
struct lease;

/*
 * Makes a lease for the caller's process. wake is called from any thread, perhaps under
 * the broker's locks, whenever broker_lease_changed() may have become true; it must only
 * note that.
 *
 * Returns: 0; -EACCES where map= says no; -EOPNOTSUPP for kinds that can't be leased;
 * -EMFILE when the caller's user has too many; -ESTALE; -ENOMEM.
 */
int broker_lease_open(struct broker *broker, struct token token,
		      const struct caller *caller, bool write,
		      void (*wake)(void *userdata), void *userdata,
		      struct lease **ret_lease);

/*
 * Waits for the lease's turn in the order of uses; done's bytes are the text of its file:
 * a KEY VALUE a line (docs/sharing.md). Errors: -EIO, -EINTR, -ENOMEM, -ESTALE.
 */
void broker_lease_read(struct lease *lease, struct wait *wait);

/*
 * A line: `hold r`, `hold w` or `release`. A hold takes a place in the order of uses and
 * is answered when its turn has come. Errors: -EINVAL, -EBUSY (it holds already), -EACCES
 * (`hold w` of a lease for reading), -EINTR, -ESTALE, -ENOMEM.
 */
void broker_lease_write(struct lease *lease, const struct caller *caller,
			const char *line, size_t length, struct wait *wait);

/* Whether state or generation have changed since the last read began. */
bool broker_lease_changed(struct lease *lease);

/* Ends the lease; wake is not running any more and will not be called. Takes NULL. */
struct lease *broker_lease_close(struct lease *lease);

/*
 * The descriptor of a lease's memory for whoever brings the ticket that its file shows:
 * the user who opened the lease, or root. The caller closes it.
 *
 * Returns: a descriptor; -EINVAL for what is no ticket; -ENOENT for one that is not good
 * any more; -EACCES for another user's; -EMFILE.
 */
int broker_redeem(struct broker *broker, const char *ticket, size_t length, uid_t uid);

/* ---- journal ---- */

/* The last failures: the caller's own, everyone's for root. */
void broker_errors(struct broker *broker, const struct caller *caller, struct text *text);

/* Writes a failure that the view itself found; error is a positive errno. */
void broker_fail(struct broker *broker, const struct caller *caller, const char *file,
		 int error, const char *format, ...) _printf_(5, 6);

/* The last changes. */
void broker_events(struct broker *broker, struct text *text);

/*
 * A reader of changes as they come, from the moment it is made. wake is called from any
 * thread whenever there is something to take; it must only note that, and call nothing
 * here (the journal's lock is held, which is what makes event_reader_free() final).
 */
struct event_reader *event_reader_new(struct broker *broker, void (*wake)(void *userdata),
				      void *userdata);

/* ---- life ---- */

#define GIVE_BACK_TIMEOUT_MS 10000

struct broker_config {
	const char *driver;	    /* library to load */
	const char *worker;	    /* the worker program */
	const char *version;	    /* of gpumem */
	const char *socket;	    /* where tickets are exchanged; NULL: nowhere */
	unsigned int worker_idle_s; /* an owner's worker with nothing to keep ends after
				       this */
	uint32_t launch_timeout_ms; /* of a launch that names none; 0: none */
	/* For a worker to unmap what is freed or shut off, and for kernels of others that
	 * use what is shut off. */
	uint32_t give_back_timeout_ms; /* 0: GIVE_BACK_TIMEOUT_MS */
};

/*
 * Loads the driver, looks at the devices, starts the mover (in the background).
 *
 * Returns: 0; else a negative errno, and why says it in a sentence.
 */
int broker_new(struct broker **ret_broker, const struct broker_config *config,
	       struct text *why);

/* From here on nothing new is accepted: -ESTALE, "shutting down". */
void broker_shutdown(struct broker *broker);

/*
 * Lets what is under way end, for a bounded time, and then ends the workers: what they
 * still had has failed. After broker_shutdown(). Whoever waits has been answered then.
 * The first call does it; broker_free() is one.
 */
void broker_drain(struct broker *broker);

/*
 * Ends the workers within a bounded time, frees everything.
 *
 * Returns: 0; -EIO when something could not be given back, why says what.
 */
int broker_free(struct broker *broker, struct text *why);

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
#include "base/wait.h"
#include "memops/data.h"
#include "memops/lease_file.h"
#include "model/access.h"
#include "model/event_reader.h"
#include "model/object.h"
#include "op/interrupt.h"

struct attribute;
struct broker;

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
	bool host;	    /* an allocation of kind host: its data can be mapped */
	bool managed;	    /* an allocation of kind managed: has all files of such */
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
/* Before that, and after event_reader_free(): the share of whoever opened it. Returns: 0;
 * -ENOMEM, -EMFILE (in the journal). */
int broker_reader_take(struct broker *broker, const struct caller *caller);
void broker_reader_give(struct broker *broker, const struct caller *caller);
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

/* SPDX-License-Identifier: MIT */
/*
 * Interface of the broker for its view: fuse/ needs only this header and the others of
 * this folder.
 *
 * All functions may be called from any thread and never block on a GPU or a worker. A
 * function that may have to wait takes a `struct completion` and answers through it: from
 * another thread, or before the call returns if the answer is known at once. No lock of
 * the broker is held during a callback.
 *
 * Errors are negative errno values. Failures caused by users, here or in a command, are
 * in the journal with their sentence before the error is returned, except where a
 * function says otherwise.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/completion.h"
#include "base/text.h"
#include "channel/look.h"
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
 * Finds a name in a folder of objects of a type. in: the folder's token; for functions
 * their module's; TOKEN_NONE: the folder in the root.
 *
 * Returns: 0; -ENOENT (not in the journal); -EAGAIN when a worker has to be asked:
 * broker_look_up(). Streams `default` are the caller's own.
 */
int broker_find(struct broker *broker, enum object_type type, struct token in,
		const char *name, const struct caller *caller,
		struct object_ref *ret_object);

/*
 * Whether an object is a folder: an OBJECT_FOLDER, or a module that has become a folder
 * of modules.
 */
bool broker_is_folder(struct broker *broker, enum object_type type, struct token token);

/* The folder that an object is in. TOKEN_NONE: the one in the root, or the object is
 * gone. */
struct object_ref broker_above(struct broker *broker, enum object_type type,
			       struct token token);

/*
 * Appends the path in the mount, such as `allocations/x`. Returns: 0; -ESTALE when the
 * object is gone (not in the journal).
 */
int broker_path(struct broker *broker, enum object_type type, struct token token,
		struct text *text);

struct listing {
	struct object_ref object;
	uint64_t id;   /* as in struct object_stat */
	uint64_t next; /* cookie to continue after this entry */
	char name[LISTED_NAME_MAX + 1];
};

/*
 * Lists at most n objects after cookie (0: from the start). Objects that exist during the
 * whole listing are listed exactly once.
 *
 * Returns: the number of entries; 0 at the end.
 */
size_t broker_list(struct broker *broker, enum object_type type, struct token in,
		   const struct caller *caller, uint64_t cookie, struct listing *entries,
		   size_t n);

struct object_stat {
	uint64_t id; /* never reused for another object of the type */
	uid_t uid;
	gid_t gid;
	mode_t mode;   /* permission bits of its files: rw for user, group, other */
	uint64_t size; /* bytes of data or image; 0: has none */
	uint64_t tensors_size; /* bytes of the tensors of an allocation */
	int64_t changed_s; /* last write, or else creation; seconds and nanoseconds, UTC
			    */
	uint32_t changed_ns;
	int64_t created_s;
	int64_t used_s; /* last read, launch or lease; 0: never, or not known */
	uint32_t used_ns;
	bool folder;  /* a folder: mode has x bits of its own */
	bool host;    /* an allocation of kind host: can be mapped */
	bool sealed;  /* an allocation that nobody can write any more */
	bool managed; /* an allocation of kind managed: has its extra files */
};

/* Returns: 0; -ESTALE when the object is gone (not in the journal). */
int broker_stat(struct broker *broker, enum object_type type, struct token token,
		struct object_stat *ret_stat);

/*
 * Appends the contents of the attribute's file with a newline; attribute NULL is
 * `status`, with all attributes known to the broker. Not for ATTRIBUTE_ASKED.
 *
 * Returns: 0; -ESTALE; -ENOMEM.
 */
int broker_show(struct broker *broker, enum object_type type, struct token token,
		const struct attribute *attribute, struct text *text);

/*
 * Writes an attribute with ATTRIBUTE_WRITABLE; the value may end in one newline.
 *
 * Returns: 0; -EINVAL; -EBUSY when already in use; -ENOENT; -EPERM; -ESTALE.
 */
int broker_store(struct broker *broker, enum object_type type, struct token token,
		 const struct attribute *attribute, const struct caller *caller,
		 const char *value, size_t length);

/*
 * mkdir in a folder of objects of a type, as broker_find() takes it: a folder of
 * allocations, a module, a stream. The kernel has checked the folder's mode, here and
 * below. A module without an image that is `in` becomes a folder.
 *
 * Returns: 0; -EEXIST, -EINVAL, -ENAMETOOLONG, -EDQUOT, -EPERM, -ENOMEM, -ESTALE.
 */
int broker_create(struct broker *broker, enum object_type type, struct token in,
		  const char *name, mode_t mode, const struct caller *caller,
		  struct object_ref *ret_object);

/*
 * rmdir: frees an allocation, destroys a stream, unloads a module, removes an empty
 * folder. Never waits: memory in use is released after the last use.
 *
 * Returns: 0; -ENOENT, -EBUSY (stream with work, module with launches), -ENOTEMPTY,
 * -EPERM, -ESTALE.
 */
int broker_remove(struct broker *broker, enum object_type type, struct token in,
		  const char *name, const struct caller *caller);

/* A name in a folder, as broker_find() takes it. */
struct name_in {
	struct token in;
	const char *name;
};

/*
 * Renames; flags as of renameat2(2). An empty folder may be replaced.
 * Returns: 0; -ENOENT, -EEXIST, -EINVAL, -ENAMETOOLONG, -ENOTEMPTY, -EPERM.
 */
int broker_rename(struct broker *broker, enum object_type type, struct name_in from,
		  struct name_in to, unsigned int flags, const struct caller *caller);

/*
 * chmod, chgrp, and root's chown of a folder; -1: keep. Returns: 0; -ESTALE, -EPERM,
 * -EDQUOT.
 */
int broker_change_folder(struct broker *broker, enum object_type type, struct token token,
			 const struct caller *caller, mode_t mode, uid_t uid, gid_t gid);

/* ---- calls that may wait ---- */

/* Asks for an attribute with ATTRIBUTE_ASKED: done's bytes are the text of its file. */
void broker_ask(struct broker *broker, struct token token,
		const struct attribute *attribute, const struct caller *caller,
		struct completion *wait);

/*
 * Asks the worker about a name after broker_find() returned -EAGAIN. Then broker_find()
 * can answer. Errors: -ENOENT, -ESTALE, -EINTR, -EIO, -ENOMEM (not in the journal).
 */
void broker_look_up(struct broker *broker, enum object_type type, struct token in,
		    const char *name, struct completion *wait);

/* For statfs: done's bytes are a struct broker_space. */
struct broker_space {
	uint64_t total; /* bytes, all devices */
	uint64_t free;
	uint64_t n_allocations;
};
void broker_space(struct broker *broker, const struct caller *caller,
		  struct completion *wait);

/* ---- journal ---- */

/* The last failures: the caller's own; all for root. */
void broker_errors(struct broker *broker, const struct caller *caller, struct text *text);

/* Notes that a sealed allocation was opened for writing. Returns: -EPERM; -ESTALE. */
int broker_refuse_sealed(struct broker *broker, const struct caller *caller,
			 struct token token, const char *file);

/* Notes a failure found by the view; error is a positive errno. */
void broker_fail(struct broker *broker, const struct caller *caller, const char *file,
		 int error, const char *format, ...) _printf_(5, 6);

/* The last changes. */
void broker_events(struct broker *broker, struct text *text);

/*
 * A reader of future changes. wake is called from any thread when there is a new change
 * and the reader has taken all before. wake may only note this, and must not call the
 * broker: the journal's lock is held, so that no call comes after event_reader_free().
 *
 * Take the share of the reader's user before event_reader_new(), and give the share back
 * after event_reader_free(). Returns: 0; -ENOMEM, -EMFILE (in the journal).
 */
int broker_reader_take(struct broker *broker, const struct caller *caller);
void broker_reader_give(struct broker *broker, const struct caller *caller);

/*
 * Charges the user for the bytes of a text that an open descriptor keeps, in place of
 * those charged before. Returns: 0; -ENOMEM, -EDQUOT (in the journal), with nothing
 * changed.
 */
int broker_text_charge(struct broker *broker, const struct caller *caller,
		       const char *file, uint64_t before, uint64_t now);

struct event_reader *event_reader_new(struct broker *broker, void (*wake)(void *userdata),
				      void *userdata);

/* ---- life ---- */

#define GIVE_BACK_TIMEOUT_MS 10000

struct keep;

struct broker_config {
	const char *driver;	    /* library to load */
	const char *worker;	    /* the worker program */
	const char *version;	    /* of gpumem */
	struct warnings *warnings;  /* base/warning.h; NULL: nobody wants them */
	const char *subuid;	    /* file of subordinate uids; NULL: there are none */
	unsigned int worker_idle_s; /* an owner's worker without memory ends after this
				       idle time */
	uint32_t launch_timeout_ms; /* default limit of a launch; 0: none */
	/*
	 * Time for a worker to unmap memory that was freed or closed to it, and for other
	 * owners' kernels to stop using such memory.
	 */
	uint32_t give_back_timeout_ms; /* 0: GIVE_BACK_TIMEOUT_MS */
};

/*
 * Loads the driver and probes the devices: what takes long and needs nothing of the last
 * broker.
 *
 * Returns: 0; a negative errno, with a sentence in why.
 */
int broker_new(struct broker **ret_broker, const struct broker_config *config,
	       struct text *why);

/*
 * Goes on with the objects of the last broker, or with none, and starts the mover (in the
 * background). Once, before anything else. keep keeps descriptors for the next broker
 * (NULL: none does), tickets are exchanged at socket (NULL: nowhere).
 *
 * Returns: 0; a negative errno, with a sentence in why.
 */
int broker_begin(struct broker *broker, struct keep *keep, const char *socket,
		 struct text *why);

/*
 * Before a request that may charge the caller, or change anything: whether another
 * subordinate uid may become an owner. Returns: 0; -ENOMEM; -EUSERS, in the journal.
 */
int broker_admit(struct broker *broker, const struct caller *caller);
struct subordinates *broker_subordinates(const struct broker *broker);

/* Appends what is held, on a line for people: "2 devices, 3 allocations of 12 MiB". */
void broker_summary(struct broker *broker, struct text *text);

/*
 * Reads the limits of users from a file, which keeps them from now on. At most once,
 * before any request. Returns: 0; a negative errno, with a sentence in why.
 */
int broker_limits(struct broker *broker, const char *path, struct text *why);

/*
 * Checks the records that a broker keeps for the next, and prints them. Returns: 0;
 * -EINVAL, with a sentence, for what the next broker would refuse; -errno.
 */
int broker_print_records(const char *path, struct text *text);

/* The ends for the view's tokens, which the view raises (base/token_ends.h). Owned by the
 * broker. */
struct token_ends *broker_token_ends(const struct broker *broker);

/*
 * The kernel's request INIT, with which the connection began. Each next broker hears the
 * same bytes again, so the request has to be noted before the answer.
 */
size_t broker_init_request(const struct broker *broker, const void **ret_bytes);
void broker_note_init_request(struct broker *broker, const void *bytes, size_t length);

/*
 * Where users have asked for nothing that is not done: from now on nothing changes, until
 * broker_go_on(), by the same thread. Nobody may call the broker meanwhile.
 * Returns: how many operations are left; 0: the broker is paused.
 */
unsigned int broker_pause(struct broker *broker);
void broker_go_on(struct broker *broker);

/*
 * Notes that a request, by its number, was under way when the last broker died and is
 * tried again. Returns: false where an earlier broker had tried it again, and died.
 */
bool broker_try_again(struct broker *broker, uint64_t unique);

/*
 * From now on the keeper takes a broker whose view does not live for one that hangs.
 * lives is called about once a second, under a lock of the broker. NULL: no longer.
 */
void broker_watch_view(struct broker *broker, bool (*lives)(void *userdata),
		       void *userdata);

/* From now on no new work is accepted: -ESTALE, "shutting down". */
void broker_shutdown(struct broker *broker);

/*
 * Waits for ops under way, for a limited time, and then ends the workers: unfinished ops
 * fail. Call after broker_shutdown(). Afterwards all waiting callers have been answered.
 * Only the first call has an effect; broker_free() calls it too.
 */
void broker_drain(struct broker *broker);

/*
 * Ends the workers within a limited time, frees everything.
 *
 * Returns: 0; -EIO when something could not be released, with a sentence in why.
 */
int broker_free(struct broker *broker, struct text *why);

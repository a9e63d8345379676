/* SPDX-License-Identifier: MIT */
/* The files that are written whole (upload.h): what each does with its contents. */
#pragma once

#include "api/upload.h"
#include "base/workqueue.h"
#include "model/written.h"

struct refusal;

/* The contents at the time of the open. Never change. */
struct contents {
	void *object; /* has a reference; NULL: empty, or charged to another user */
	int fd;	      /* of a memfd; -1: empty */
	uint64_t size;
	uint64_t number; /* of tensors: no others ever have it */
};

struct upload_class {
	const char *file; /* name of the file */
	uint64_t most;	  /* bytes */
	const char *too_big;
	enum task_length length; /* of storing more than a short text */

	/*
	 * Takes a reference to the contents, if this user is charged for them. Under
	 * registry.lock.
	 */
	void (*get)(void *object, uid_t uid, struct contents *ret_contents);
	/* Gives the reference back. No lock held. */
	void (*put)(struct broker *broker, const struct contents *contents);

	/*
	 * Looks at the first bytes, as soon as they are written: a shell does not say
	 * what close(2) returns. Returns: 0; -EINVAL, -ESTALE, -ENOMEM. NULL: at close
	 * alone.
	 */
	int (*look)(struct broker *broker, struct token token, const char *bytes,
		    size_t size, struct refusal *refusal);

	/*
	 * The file was closed, and store() will be called. Returns: 0; -ESTALE with a
	 * refusal. NULL: does nothing. Under registry.lock.
	 */
	int (*announce)(struct broker *broker, struct written *written,
			struct refusal *refusal);

	/*
	 * Stores the contents, or says why not; answers written->wait. In the work queue:
	 * may take long. See upload_flush().
	 */
	void (*store)(struct broker *broker, struct written *written);

	/*
	 * The file was cut to nothing and closed: removes these contents, unless others
	 * took their place. NULL: has no effect.
	 */
	void (*remove)(struct broker *broker, struct token token,
		       const struct caller *caller, const struct contents *contents);
};

extern const struct upload_class image_upload, tensors_upload;

/* SPDX-License-Identifier: MIT */
/*
 * The mount that a subcommand works on.
 */
#pragma once

#include "base/text.h"

#include <gpumem/gpumem.h>
#include <gpumem/wire.h>

struct mount {
	struct gpumem *session;
	const char *path;
	int fd; /* of the mount's folder */
};

#define MOUNT_CLOSED     \
	{                \
		.fd = -1 \
	}

/*
 * Finds and opens the mount, once it has answered. Prints why there is none.
 *
 * Returns: an exit status.
 */
int mount_open(struct mount *mount);
void mount_close(struct mount *mount);

/* As mount_open(), without a sentence on stderr. Returns: 0; -errno with a sentence in
 * `why`. */
int mount_try(struct mount *mount, struct text *why);

/* Adds a file of the mount to the text. Returns: 0; -errno. */
int mount_read(const struct mount *mount, const char *file, struct text *text);

/* Adds the reason why a call on a file of the mount failed with this error: the broker's
 * sentence, else the meaning of errno. */
void mount_why(const struct mount *mount, const char *file, int error, struct text *why);

/*
 * Opens the folder of an allocation or, with a name that ends in `/` or is empty, a
 * folder of allocations. Who owns a folder on the way may exchange what is there, so all
 * files of one allocation are opened below its one descriptor. Returns: a descriptor,
 * O_PATH; -errno.
 */
int mount_allocation(const struct mount *mount, const char *name);

/* What a file for file_read() may have: as much as an image. */
#define FILE_READ_MAX WIRE_IMAGE_MAX

/* Adds a file below an open folder. Returns: 0; -EFBIG: the file is too long; -errno. */
int file_read(int folder, const char *file, struct text *text);

/*
 * Writes a line to a file of the mount, and adds the answer to the text (NULL: no answer
 * wanted). Returns: 0; -errno, with a sentence in gpumem_error().
 */
int mount_line(const struct mount *mount, const char *file, const char *line,
	       struct text *answer);

#define _cleanup_mount_ _cleanup_(mount_close)

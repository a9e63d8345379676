/* SPDX-License-Identifier: MIT */
/*
 * The driver libraries to probe, and where in them each call stands.
 */
#pragma once

#include "base/def.h"
#include "call.h"

#include <sys/types.h>

enum symbol_state {
	SYMBOL_ABSENT, /* this driver has no such call */
	SYMBOL_FOUND,
	SYMBOL_SAME, /* another name of a probed call */
	SYMBOL_NOP5, /* opens with an instruction where no probe may be put */
};

struct symbol {
	enum symbol_state state;
	enum call_id same; /* SYMBOL_SAME: the probed call */
	uint64_t offset;   /* in the file */
};

struct library {
	char *name; /* the path, as processes see the file */
	int fd;	   /* kept open, so that the file can't vanish; -1: could not be opened */
	int error; /* 0, or the -errno that keeps the library from being probed */
	bool refused; /* the error is of this way to attach; another may do */
	uid_t finder; /* whose process had it mapped; NO_UID */
	dev_t device;
	ino_t inode;
	struct symbol symbols[N_CALLS];
};

#define NO_UID ((uid_t)-1)

/* A user can't keep the tool busy with any number of files. */
#define LIBRARIES_OF_USER 16

struct libraries {
	struct library *list;
	size_t n;
};

/* Size of a path to an open library. */
#define LIBRARY_PATH_SIZE 32

/*
 * Adds the library at a path, unless the file is there already.
 *
 * Returns: 0; -errno of opening or reading it; -ENOEXEC for another kind of file; -EFBIG
 * for a file with more than is read; -ENODATA for a file cut short.
 */
int libraries_add(struct libraries *libraries, const char *path, const char *name);

/* Adds a library that has been read. Takes over its descriptor, on success. Returns: 0;
 * -ENOMEM. */
int libraries_append(struct libraries *libraries, struct library *library,
		     const char *name);

/*
 * Adds libraries mapped by a process of a user, and may wait for the process and for its
 * files (search.h). A library with an unreadable file is added with an error, and so is
 * one beyond LIBRARIES_OF_USER (-EMFILE), or in a file system that a user may serve
 * (-EREMOTE).
 */
void libraries_add_process(struct libraries *libraries, const char *pid, uid_t uid);

/* Adds the library picked by the loader, and libraries in the folders of an
 * LD_LIBRARY_PATH. */
void libraries_add_default(struct libraries *libraries, const char *library_path);

/* Whether the library has any of the calls. */
bool library_has_calls(const struct library *library);

/* How many are to be probed. */
size_t libraries_usable(const struct libraries *libraries);

/* Whether the calls can still be read. Returns: 0; -errno; -ENODATA for a file cut
 * short. */
int library_check(const struct library *library);

/* A path to the open file, valid as long as the library. */
void library_path(const struct library *library, char ret_path[LIBRARY_PATH_SIZE]);

void libraries_deinit(struct libraries *libraries);

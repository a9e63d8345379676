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
	SYMBOL_SAME, /* another name of a call that is probed already */
	SYMBOL_NOP5, /* opens with an instruction where no probe may be put */
};

struct symbol {
	enum symbol_state state;
	enum call_id same; /* SYMBOL_SAME: as which */
	uint64_t offset;   /* in the file */
};

struct library {
	char *name; /* by which it is known to its users */
	int fd;	    /* open, so that it can't vanish; -1: it could not be opened */
	int error;  /* why it is not probed, -errno; 0: it is */
	dev_t device;
	ino_t inode;
	struct symbol symbols[N_CALLS];
};

struct libraries {
	struct library *list;
	size_t n;
};

/* Of a path to an open library, for those who want a path. */
#define LIBRARY_PATH_SIZE 32

/*
 * Adds the library at a path, unless it is there already.
 *
 * Returns: 0; -errno of opening it; -ENOEXEC for a file that is no library.
 */
int libraries_add(struct libraries *libraries, const char *path, const char *name);

/*
 * Adds those that running processes have mapped. One whose file is gone or can't be read
 * is added with its error; processes that can't be looked at are passed over.
 */
void libraries_add_running(struct libraries *libraries);

/* Adds the one that the loader picks, and those in the folders of an LD_LIBRARY_PATH. */
void libraries_add_default(struct libraries *libraries, const char *library_path);

/* Whether it has any of the calls. */
bool library_has_calls(const struct library *library);

/* How many are to be probed. */
size_t libraries_usable(const struct libraries *libraries);

/* Whether its calls can still be read. Returns: 0; -errno; -ENODATA if it was cut. */
int library_check(const struct library *library);

/* A path that leads to the open file for as long as the library is there. */
void library_path(const struct library *library, char ret_path[LIBRARY_PATH_SIZE]);

void libraries_deinit(struct libraries *libraries);

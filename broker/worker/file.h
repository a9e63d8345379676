/* SPDX-License-Identifier: MIT */
/* Files that the process of files has open, to be loaded and saved. */
#pragma once

#include <sys/types.h>

#include "base/def.h"

#include <gpumem/wire.h>

#define FILE_LIST_MAX 4096

/* A file that is to stand at a path. */
struct draft {
	char path[WIRE_PATH_SIZE]; /* without symbolic links at its end */
	char folder[WIRE_PATH_SIZE];
	char name[WIRE_PATH_SIZE + 64]; /* of the draft; "": it has no name */
	mode_t mode;
	bool replaces; /* a file that is there, of this group */
	gid_t group;
	char list[FILE_LIST_MAX]; /* its access list */
	ssize_t list_length;	  /* -1: none */
};

struct file {
	int fd;
	int direct_fd;	/* the same file with O_DIRECT; -1: none */
	uint64_t bytes; /* to move; after WIRE_FILE_OUT_OF_RANGE: of the file */
	bool save;
	struct draft draft; /* of a save */
};

#define FILE_INIT                                                          \
	{                                                                  \
		.fd = -1, .direct_fd = -1, .draft = { .list_length = -1 }, \
	}

/*
 * Open a file. request, wish: of a FILE_OPEN; length: bytes to move. Return:
 * WIRE_FILE_DONE; else how the opening ended, with *ret_error a positive errno.
 */
enum wire_file_end file_open_to_load(struct file *file,
				     const struct wire_request *request,
				     const struct wire_file_open *wish, int *ret_error);
enum wire_file_end file_open_to_save(struct file *file, const char *path, mode_t mode,
				     uint64_t length, int *ret_error);

/*
 * Reads bytes of the file into memory of that size, or writes them, as the piece says.
 * *ret_n: bytes moved, also on failure. Returns: 0; -errno; -ENODATA at the end of the
 * file.
 */
int file_move_piece(const struct file *file, const struct wire_piece *piece,
		    uint8_t *memory, uint64_t size, uint32_t *ret_n);

/*
 * Gives the complete file its name, unless is_over() says after the bytes are on the disk
 * that nobody wants it any more. Returns: 0; -errno; -ECANCELED.
 */
int file_keep(struct file *file, bool (*is_over)(const void *userdata),
	      const void *userdata);

/* Also removes a file that was not kept. */
void file_close(struct file *file);

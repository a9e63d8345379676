/* SPDX-License-Identifier: MIT */
/*
 * Files of safetensors: 8 bytes with the length of the header (little endian), the header
 * as JSON text, the tensors' bytes. The broker checks the JSON (`tensors`).
 */
#pragma once

#include "base/text.h"

#define SAFETENSORS_PREFIX 8

/*
 * Reads the header of an open file of size bytes. A file whose name ends in .safetensors
 * must have a good header. Any other file counts as safetensors if it begins with one.
 *
 * Returns: 1; 0 for another file; -errno with a sentence.
 */
int safetensors_read(const char *name, int fd, uint64_t size, struct text *header,
		     struct text *why);

/* Writes the length and the header. Returns: 0; -errno. */
int safetensors_write(int fd, const struct text *header);

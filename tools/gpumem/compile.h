/* SPDX-License-Identifier: MIT */
/* nvcc, as a child process. */
#pragma once

#include "base/text.h"

/* The path of nvcc, in the text. Returns: whether there is one. */
bool nvcc_find(struct text *path);

/*
 * Compiles a .cu to a fatbin for one compute capability ("9.0"), in a temporary folder.
 * nvcc prints on stderr itself. The path of the fatbin is in the text.
 *
 * Returns: an exit status.
 */
int compile(const char *source, const char *capability, struct text *fatbin);

/* Removes the fatbin and its folder; an empty path: nothing. */
void compile_remove(const struct text *fatbin);

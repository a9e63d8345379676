/* SPDX-License-Identifier: MIT */
/*
 * Numbers of files. A node id holds the number of its file, and the kernel keeps node ids
 * for as long as it likes: longer than a broker lives, and longer than a version of the
 * program. So a number never changes, and is never given to another file.
 */
#pragma once

#include "api/broker.h"

#define NODE_NUMBERS_MAX 64

/*
 * The number of a file: of a fixed node by its path in the mount, of a file of an object
 * by its name. Returns: a number below NODE_NUMBERS_MAX; -ENOENT.
 */
int node_number(enum object_type type, const char *directory, const char *name);

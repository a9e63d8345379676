/* SPDX-License-Identifier: MIT */
/*
 * The mounts of brokers that a program of this user believes: those of root and of the
 * user. Anybody can mount something that looks like a broker's, takes what is written
 * and never answers; so a stranger's mount is not touched at all.
 */
#pragma once

#include "base/def.h"

#include <stdio.h>

/* A list of mounts, as in /proc/self/mounts, that is being read. */
struct broker_mounts {
	FILE *file;
	char *line;
	size_t size;
};

/* Reads a list from an open file. broker_mounts_close() closes the file. */
#define BROKER_MOUNTS(list) ((struct broker_mounts){ .file = (list) })

/* Opens the list of the mounts that this process sees. Returns: 0; -errno. */
int broker_mounts_open(struct broker_mounts *ret_mounts);

/* Returns: the folder of the next such mount, good until the next call; NULL. */
const char *broker_mounts_next(struct broker_mounts *mounts);

void broker_mounts_close(struct broker_mounts *mounts);

#define _cleanup_broker_mounts_ _cleanup_(broker_mounts_close)

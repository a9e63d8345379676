/* SPDX-License-Identifier: MIT */
/*
 * The mounts of brokers that a program of this user believes: those of root and of the
 * user. Anybody can mount something that looks like a broker's, takes what is written
 * and never answers; so a stranger's mount is not touched at all.
 */
#pragma once

#include <mntent.h>
#include <stdio.h>

/* Returns: the next such mount of /proc/self/mounts, good until the next call; NULL. */
const struct mntent *broker_mount_next(FILE *mounts);

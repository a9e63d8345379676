/* SPDX-License-Identifier: MIT */
/*
 * Subordinate uids (subuid(5)). A user may act as each uid of a range, 65,536 of them by
 * default. Where many users could crowd out others, all uids of a range are one user.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct subordinates;

/*
 * Reads the ranges from a file like /etc/subuid; without the file there are none. NULL:
 * no memory.
 */
struct subordinates *subordinates_new(const char *path);
struct subordinates *subordinates_free(struct subordinates *subordinates);

/* Reads the file again if it has changed. */
void subordinates_look(struct subordinates *subordinates);

/*
 * The number that all uids of a range share; of any other uid, the uid. The uids of
 * root's ranges are users of their own: root gave them to containers. NULL: no ranges.
 */
uint64_t subordinates_user(struct subordinates *subordinates, uid_t uid);

/* The first uid of the range; -1: it is not the number of a range. */
int64_t subordinates_first(uint64_t user);

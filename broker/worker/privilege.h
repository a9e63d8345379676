/* SPDX-License-Identifier: MIT */
/* Makes the process safe to give to an owner: the owner's ids, nothing of the broker. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Becomes the user for good, with the user's groups and home. Exits on failure. */
void privilege_become(uid_t uid, gid_t gid);

/* Stays the user of the broker, with the user's home. */
void privilege_keep(void);

/*
 * No way back and no way in: no new privileges, no tracing, and SIGKILL when the broker
 * (parent, its process id) ends. Must come after privilege_become(), which would reset
 * this.
 */
void privilege_lock(pid_t parent);

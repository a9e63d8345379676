/* SPDX-License-Identifier: MIT */
/* Becoming the process that an owner may have: his ids, and nothing of the broker's. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Changes to that user for good, with his groups and his home. Exits where it can't. */
void privilege_become(uid_t uid, gid_t gid);

/*
 * No way back and no way in: no new privileges, not traceable, and not outliving the
 * broker (parent, its process id). After privilege_become(), which would undo it.
 */
void privilege_lock(pid_t parent);

/* SPDX-License-Identifier: MIT */
/* The service manager's store of descriptors between two keepers (systemd: FDSTORE). */
#pragma once

#include "keep/left.h"

/* Whether a service manager started this process. */
bool service_is_there(void);

/*
 * A keeper's store(). Returns when the manager has taken the descriptor or has refused
 * it.
 */
int service_store(void *userdata, int socket);

/* Takes the sockets of the last keeper, if any. Returns: as left_read(). */
int service_take(struct left *ret_left, struct text *why);

/* Empties the manager's store, and closes the descriptors not taken. */
void service_forget(struct left *left);

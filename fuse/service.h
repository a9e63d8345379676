/* SPDX-License-Identifier: MIT */
/* What the service manager holds between two keepers: systemd's file descriptor store. */
#pragma once

#include "keep/left.h"

/* Whether a manager is there that may hold something. */
bool service_is_there(void);

/* A keeper's store(): returns when the manager has the descriptor, or has closed it. */
int service_store(void *userdata, int socket);

/* Takes what the last keeper has left, if any. Returns as left_read(). */
int service_take(struct left *ret_left, struct text *why);

/* The manager holds nothing any more; closes what was not taken. */
void service_forget(struct left *left);

/* SPDX-License-Identifier: MIT */
/*
 * The service manager (systemd): notifications, and its store of descriptors between two
 * keepers (FDSTORE).
 */
#pragma once

#include "keep/left.h"

struct keep;

/* Whether a service manager started this process. */
bool service_is_there(void);

/*
 * Sends the manager a notification, as sd_notify(3). With NotifyAccess=main the manager
 * hears only the main process, since the workers of users belong to the service, too. So
 * a broker hands the text to its keeper. keep: NULL in the main process.
 */
void service_tell(struct keep *keep, const char *state);

/*
 * A keeper's store(). Returns when the manager has taken the descriptor or has refused
 * it.
 */
int service_store(void *userdata, int socket);

/* Takes the sockets of the last keeper, if any. Returns: as left_read(). */
int service_take(struct left *ret_left, struct text *why);

/* Empties the manager's store, and closes the descriptors not taken. */
void service_forget(struct left *left);

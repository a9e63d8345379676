/* SPDX-License-Identifier: MIT */
#include "user.h"

#include "base/clock.h"

#include <stdlib.h>

struct traced_user *user_open(struct traced_users *users, uid_t uid)
{
	struct traced_user *user;

	HASH_FIND(hh, users->by_uid, &uid, sizeof uid, user);
	if (user)
		return user;
	user = calloc(1, sizeof *user);
	if (!user)
		return NULL;
	user->uid = uid;
	user->known_ns = clock_ns(CLOCK_MONOTONIC);
	HASH_ADD(hh, users->by_uid, uid, sizeof user->uid, user);
	return user;
}

void users_deinit(struct traced_users *users)
{
	struct traced_user *user, *next;

	HASH_ITER (hh, users->by_uid, user, next) {
		HASH_DEL(users->by_uid, user);
		free(user);
	}
}

/* SPDX-License-Identifier: MIT */
/* What the processes of each user have cost the tool: so no user has all of its time. */
#pragma once

#include "base/def.h"
#include "base/hash.h"

#include <sys/types.h>

struct traced_user {
	uid_t uid;
	size_t n_functions;	     /* with names (function.h) */
	size_t n_stacks;	     /* kept (symbol.h), like all below */
	unsigned int failures;	     /* of look-ups */
	uint64_t known_ns, spent_ns; /* since when; on look-ups */
	bool is_told;		     /* that the look-ups have taken too long */
	UT_hash_handle hh;
};

struct traced_users {
	struct traced_user *by_uid;
};

/* Returns: NULL when there is no memory. Good until users_deinit(). */
struct traced_user *user_open(struct traced_users *users, uid_t uid);

void users_deinit(struct traced_users *users);

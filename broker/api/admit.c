/* SPDX-License-Identifier: MIT */
/*
 * All users share what the broker has, each with a share of their own. Whoever has
 * subordinate uids could come as thousands of users. So only a few uids of a range may
 * have anything in the broker at a time.
 */
#include <errno.h>

#include "api/broker.h"
#include "base/subordinates.h"
#include "model/owner.h"
#include "model/registry.h"
#include "process/broker.h"

struct subordinates *broker_subordinates(const struct broker *broker)
{
	return broker->registry->subordinates;
}

int broker_admit(struct broker *broker, const struct caller *caller)
{
	struct registry *registry = broker->registry;
	uint64_t user = subordinates_user(registry->subordinates, caller->uid);
	int64_t first = subordinates_first(user);
	int r = 0;

	if (first < 0)
		return 0;
	pthread_mutex_lock(&registry->lock);
	if (!owner_find(registry, caller->uid) &&
	    owners_of_range(registry, user) >= OWNERS_OF_RANGE)
		r = -EUSERS;
	else if (!owner_get(registry, caller->uid, caller->gid))
		r = -ENOMEM;
	pthread_mutex_unlock(&registry->lock);
	/*
	 * All uids of the range have one uid's lines in the journal, which keeps those of
	 * a few thousand uids.
	 */
	if (r == -EUSERS)
		broker_fail(broker,
			    &(struct caller){ .uid = (uid_t)first, .pid = caller->pid },
			    "owners", EUSERS,
			    "uid %u is turned away: %u other uids of its range, which "
			    "begins at uid %u in the file of subordinate uids, have "
			    "something in the broker",
			    caller->uid, OWNERS_OF_RANGE, (uid_t)first);
	return r;
}

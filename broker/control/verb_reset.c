/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "base/handle_table.h"
#include "control/command.h"
#include "control/verbs.h"
#include "memops/lease.h"
#include "model/access.h"
#include "model/owner.h"
#include "model/registry.h"
#include "process/broker.h"
#include "process/checkpoint.h"
#include "process/worker.h"

void verb_reset(struct command *command)
{
	struct broker *broker = command->broker;
	const struct owner *owner;
	bool waits = false;
	uint32_t epoch;
	uid_t uid;

	if (command_parse(command) < 0)
		return;
	pthread_mutex_lock(&broker->registry->lock);
	owner = handle_table_get(&broker->registry->owners, command->token.slot,
				 command->token.generation);
	/* An open descriptor does not keep an owner that has nothing. */
	if (!owner) {
		pthread_mutex_unlock(&broker->registry->lock);
		command_fail(command, ESTALE,
			     "the owner had nothing for long, and is gone");
		return;
	}
	if (command->caller->uid != 0 && command->caller->uid != owner->uid) {
		uid = owner->uid;
		pthread_mutex_unlock(&broker->registry->lock);
		command_fail(command, EPERM,
			     "the worker belongs to uid %u, not to uid %u", uid,
			     command->caller->uid);
		return;
	}
	uid = owner->uid;
	if (owner->worker) {
		owner->worker->n_resets++;
		worker_forgive(owner->worker);
		epoch = worker_epoch(owner->worker);
		waits = epoch && checkpoint_begin(broker, owner->worker, epoch,
						  "was reset", EIO, &command->completion);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	leases_end_holds(broker, uid);
	if (!waits)
		command_done(command, 0);
}

/* SPDX-License-Identifier: MIT */
#include <pthread.h>

#include "base/refusal.h"
#include "control/command.h"
#include "control/line.h"
#include "control/verbs.h"
#include "memops/release.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/registry.h"
#include "process/broker.h"

void verb_free(struct command *command)
{
	struct allocation *allocation;
	struct refusal refusal;

	if (command_parse(command) < 0)
		return;
	if (line_full_name(command->line.operands[0], "allocation", &refusal) < 0) {
		command_refuse(command, &refusal);
		return;
	}
	pthread_mutex_lock(&command->broker->registry->lock);
	allocation = command_find(command, command->line.operands[0], ACCESS_OWN);
	if (!allocation)
		return;
	if (folder_check(allocation->entry.folder, command->caller, FOLDER_WRITE,
			 &refusal) < 0) {
		pthread_mutex_unlock(&command->broker->registry->lock);
		command_refuse(command, &refusal);
		return;
	}
	allocation_release_by(command->broker, allocation, command->caller);
	command_done(command, 0);
}

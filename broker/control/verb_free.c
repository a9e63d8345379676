/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>

#include "base/refusal.h"
#include "control/command.h"
#include "control/line.h"
#include "control/verbs.h"
#include "memops/free_from.h"
#include "memops/release.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/registry.h"
#include "process/broker.h"

/* An epilog that finds nothing to free has succeeded. */
static void free_cgroup(struct command *command, const char *word)
{
	char path[LINE_MAX_LENGTH + 1];
	struct refusal refusal;
	uint64_t n, bytes;

	if (line_cgroup(word, path, &refusal) < 0) {
		command_refuse(command, &refusal);
		return;
	}
	n = allocations_free_from(command->broker, command->caller, path, &bytes);
	text_printf(&command->answer, "freed %llu\nbytes %llu\n", (unsigned long long)n,
		    (unsigned long long)bytes);
	command_done(command, 0);
}

static void free_name(struct command *command, const char *name)
{
	struct allocation *allocation;
	struct refusal refusal;

	if (line_full_name(name, "allocation", &refusal) < 0) {
		command_refuse(command, &refusal);
		return;
	}
	pthread_mutex_lock(&command->broker->registry->lock);
	allocation = command_find(command, name, "id", ACCESS_OWN);
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

void verb_free(struct command *command)
{
	const char *name, *cgroup;

	if (command_parse(command) < 0)
		return;
	name = command->line.operands[0];
	cgroup = line_value(&command->line, "cgroup");
	if (!name == !cgroup)
		command_fail(command, EINVAL, "%s",
			     name ? "a line frees NAME or cgroup=PATH, not both"
				  : "NAME or cgroup=PATH is missing");
	else if (cgroup && line_value(&command->line, "id"))
		command_fail(command, EINVAL, "id= is for NAME, not for cgroup=PATH");
	else if (cgroup)
		free_cgroup(command, cgroup);
	else
		free_name(command, name);
}

/* SPDX-License-Identifier: MIT */
#include "event.h"

#include "import.h"
#include "proc.h"

#include <stdio.h>

/* The address that a call is about, or 0; and whether the address is new. */
static uint64_t event_address(const struct record *record, bool *ret_is_new)
{
	const struct call *call = &calls_table[record->call];

	*ret_is_new = false;
	if (call->memory == MEMORY_RESERVED) /* room for allocations, and none itself */
		return 0;
	switch (call->op) {
	case OP_ALLOC:
		*ret_is_new = true;
		return record->result ? 0 : record->out[0];
	case OP_REGISTER:
	case OP_MAP:
		*ret_is_new = true;
		return record->args[0];
	case OP_FREE:
	case OP_UNMAP:
		return record->args[0];
	default:
		return call->group == GROUP_MANAGED ? record->args[0] : 0;
	}
}

const char *event_name(const struct tracer *tracer, const struct mount_user *user,
		       uint64_t address, uint64_t since)
{
	if (proc_is_worker(user->comm))
		return mount_name(tracer->mounts, user, address, since);
	return imports_name(tracer->imports, user->process, address);
}

size_t event_fields(const struct tracer *tracer, const struct record *record,
		    struct field fields[FIELDS_MAX])
{
	size_t n = decode_fields(record, tracer->functions, fields);
	bool is_new;
	uint64_t address = event_address(record, &is_new);
	const struct mount_user user = {
		.process = record->process,
		.pid = record->pid,
		.uid = record->uid,
		.comm = record->comm,
	};
	const char *name = event_name(tracer, &user, address,
				      is_new ? record->time + record->duration : 0);

	if (!name)
		return n;
	fields[n].name = "name";
	fields[n].is_number = false;
	snprintf(fields[n].value, sizeof fields[n].value, "%s", name);
	return n + 1;
}

const struct stack *event_stack(const struct tracer *tracer, const struct record *record)
{
	return symbols_stack(tracer->symbols, record->process, record->pid, record->uid,
			     record->stack);
}

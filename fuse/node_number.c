/* SPDX-License-Identifier: MIT */
#include "node_number.h"


#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * A file's number is its place here. A new file is appended; the name of a file that is
 * gone stays. tests/unit/view/node.c has a copy of what was once released.
 */
static const char *const names[N_OBJECT_TYPES][NODE_NUMBERS_MAX] = {
	[OBJECT_BROKER] = {
		"", "control", "README", "status", "errors", "events", "socket",
		"events_pipe", "owners", "devices", "allocations", "modules", "streams",
		"version", "driver_version", "driver_path", "leases", "control/alloc",
		"control/free", "control/fill", "control/copy", "control/load",
		"control/save", "control/publish", "control/prefetch", "control/advise",
		"control/launch", "control/synchronize", "metrics", "owners/default",
		"default/max", "pid",
	},
	[OBJECT_ALLOCATION] = {
		"", "data", "lease", "tensors", "status", "id", "kind", "device",
		"size_bytes", "address", "guard", "generation", "state", "used_by",
		"used_by_kernel", "stream", "last_prefetch", "last_write", "tag", "owner",
		"created", "map", "sealed", "leases", "progress", "prefetch", "advise",
		"attach", "until", "cgroup", "last_use",
	},
	[OBJECT_STREAM] = {
		"", "status", "device", "priority", "state", "error", "owner",
		"synchronize",
	},
	[OBJECT_DEVICE] = {
		"", "status", "name", "uuid", "pci_bus_id", "compute_capability",
		"driver_version", "memory_total_bytes", "memory_used_bytes",
		"memory_held_bytes", "managed_bytes", "managed_preferred_bytes",
		"managed_prefetched_bytes", "allocations", "leased_bytes",
		"freed_leased_bytes", "state", "virtual_memory_management",
		"managed_memory", "concurrent_managed_access",
	},
	[OBJECT_OWNER] = {
		"", "status", "name", "state", "failure", "worker", "restarts", "bytes",
		"peak_bytes", "allocations", "leases", "leased_bytes",
		"freed_leased_bytes", "output", "reset", "max", "current", "peak",
		"max_events",
	},
	[OBJECT_MODULE] = {
		"", "image", "status", "device", "state", "error", "log", "launches",
		"owner", "created", "functions",
	},
	[OBJECT_FUNCTION] = {
		"", "name", "params", "attributes", "launch",
	},
	[OBJECT_FOLDER] = {
		"",
	},
};

int node_number(enum object_type type, const char *directory, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s%s%s", directory, directory[0] ? "/" : "", name);
	for (int i = 0; i < NODE_NUMBERS_MAX && names[type][i]; i++) {
		if (strcmp(names[type][i], path) == 0)
			return i;
	}
	return -ENOENT;
}

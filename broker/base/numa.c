/* SPDX-License-Identifier: MIT */
#include "base/numa.h"

#include <stdio.h>
#include <unistd.h>

#include "base/def.h"

static bool nodes[1024]; /* Linux has no more */

void numa_look(void)
{
	char path[64];

	for (unsigned int i = 0; i < ARRAY_SIZE(nodes); i++) {
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%u", i);
		nodes[i] = access(path, F_OK) == 0;
	}
}

bool numa_has(unsigned int node)
{
	return node < ARRAY_SIZE(nodes) && nodes[node];
}

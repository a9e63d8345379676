/* SPDX-License-Identifier: MIT */
/* NUMA nodes of the machine, as they were at the start. */
#pragma once

#include <stdbool.h>

/* Looks for the nodes, before users come: they may keep the lock of the folder. */
void numa_look(void);

bool numa_has(unsigned int node);

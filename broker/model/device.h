/* SPDX-License-Identifier: MIT */
/* Devices: set when the broker starts, and constant afterwards. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define DEVICES_MAX 16

/* Limits of a launch on a device. */
struct launch_limits {
	uint32_t grid[3], block[3];
	uint32_t threads; /* in a block */
	uint32_t shared;  /* dynamic shared memory of a block, in bytes */
	bool cooperative, cluster;
};

struct device {
	uint32_t index;
	char name[256];
	char uuid[48];
	char pci_bus_id[20];
	char driver[16];
	int major, minor;
	bool has_vmm; /* has virtual memory management with exportable handles */
	bool has_managed;
	bool has_concurrent; /* GPU and CPU may access managed memory at the same time */
	uint32_t peers;	     /* peer devices with accessible memory, a bit each */
	struct launch_limits limits;
	uint64_t memory_total;
	uint32_t slot, slot_generation;
};
